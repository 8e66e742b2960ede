package wire

import "bytes"

// media is what a part of a message says of an image, of audio, or of a file. Its members come
// in any order, and only its type says what some of them are.
type media struct {
	kind   string // of the part, as far as it matters
	value  []byte // of the image, audio, video or file
	low    bool   // the image is to be seen coarsely
	wanted mediaKind
}

type mediaKind byte

const (
	noMedia mediaKind = iota
	anImage
	anAudio
	aVideo
	aFile
	ofSource // an image or a document, by the part's type
)

// member takes in a member of the part.
func (m *media) member(key string, value []byte) {
	if isNull(value) {
		return
	}
	kind := noMedia
	switch key {
	case "type":
		if string(value) == `"document"` {
			m.kind = "document"
		}
		return
	case "detail":
		m.low = string(value) == `"low"`
		return
	case "image_url", "image", "images", "image_embeds":
		kind = anImage
	case "input_audio", "audio_url":
		kind = anAudio
	case "video_url", "video":
		kind = aVideo
	case "file", "file_data", "file_url", "file_id":
		kind = aFile
	case "source":
		kind = ofSource
	default:
		return
	}
	if m.wanted == noMedia || len(value) > len(m.value) {
		m.wanted, m.value = kind, value
	}
}

// tokens is what the part takes in addition to its text.
func (m *media) tokens() int {
	data := m.value
	switch m.wanted {
	case noMedia:
		return 0
	case anImage:
		return m.image()
	case anAudio:
		return m.audio()
	case aVideo:
		return videoShare
	case ofSource:
		if m.kind != "document" {
			return m.image()
		}
	}
	if n := payload(data); n > 0 {
		if bytes.Contains(data[:min(len(data), 256)], []byte("text/plain")) {
			return max(1, n/textBytes)
		}
		return max(1, n/fileBytes)
	}
	return fileShare
}

func (m *media) image() int {
	low := m.low
	Members(m.value, func(key []byte, start, end int) bool {
		low = low || string(key) == "detail" && string(m.value[start:end]) == `"low"`
		return true
	})
	each := imageHigh
	if low {
		each = imageLow
	}
	n := 0
	if Elements(m.value, func([]byte) { n++ }) { // a list of them, as Ollama has
		return n * each
	}
	return each
}

func (m *media) audio() int {
	each := wavBytes
	Members(m.value, func(key []byte, start, end int) bool {
		if string(key) == "format" && string(m.value[start:end]) != `"wav"` {
			each = audioBytes
		}
		return true
	})
	if n := payload(m.value); n > 0 {
		return max(1, n/each)
	}
	return fileShare
}

// payload is the length of the bytes that the value holds in base 64; zero if it only says
// where they are.
func payload(value []byte) int {
	if len(value) > 0 && value[0] == '{' {
		n := 0
		Members(value, func(key []byte, start, end int) bool {
			switch string(key) {
			case "data", "file_data", "url":
				n = max(n, payload(value[start:end]))
			}
			return true
		})
		return n
	}
	text := bytes.Trim(value, `"`)
	if at := bytes.Index(text[:min(len(text), 128)], []byte(";base64,")); bytes.HasPrefix(text, []byte("data:")) && at >= 0 {
		text = text[at+len(";base64,"):]
	} else if bytes.HasPrefix(text, []byte("http")) || bytes.HasPrefix(text, []byte("file")) || len(text) < 128 {
		return 0
	}
	return len(text) / 4 * 3
}
