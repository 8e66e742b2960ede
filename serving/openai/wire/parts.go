package wire

import "slices"

// Modalities is a set of kinds of parts in the messages of a request that are not text.
type Modalities uint8

// The kinds. A part of another type, such as text or a file, is never left out.
const (
	Images Modalities = 1 << iota
	Sounds
	Videos
	kinds = 3
	// Texts are left out of inputs to classify alone: in messages they are never.
	Texts Modalities = 1 << kinds
)

var modalityNames = [kinds]string{"image", "audio", "video"}

// ModalityNamed is the kind of that name: text, image, audio or video; of another, none.
func ModalityNamed(name string) Modalities {
	if name == "text" {
		return Texts
	}
	if i := slices.Index(modalityNames[:], name); i >= 0 {
		return 1 << i
	}
	return 0
}

// Cut is what is left out of a request's messages. The zero Cut leaves out nothing.
type Cut struct {
	Without Modalities
	// Coarse has images be read at low detail.
	Coarse bool
}

// Parts says which kinds of parts the messages of a request have.
type Parts struct {
	All Modalities
	// alone has a bit for each set of kinds that make up a whole message: without them
	// nothing of it would be left.
	alone uint8
}

// Parts reads the messages of the request. What is no part of a message's content, such as
// an image in the result of a tool, does not count.
func (r *Request) Parts() (p Parts) {
	var here Modalities // of the message
	other := false
	r.contents(func(e element) {
		here |= e.kind
		other = other || e.kind == 0
	}, func() {
		if p.All |= here; !other {
			p.alone |= 1 << here
		}
		here, other = 0, false
	})
	return p
}

// Effect is what the cut comes to for a request with these parts; false if a message would
// be left without any.
func (p Parts) Effect(c Cut) (Cut, bool) {
	c.Without &= p.All
	c.Coarse = c.Coarse && p.All&^c.Without&Images != 0
	for set := Modalities(1); set < 1<<kinds; set++ {
		if p.alone&(1<<set) != 0 && set&^c.Without == 0 {
			return c, false
		}
	}
	return c, true
}

// Used names what the cut leaves of the parts, as in "text,image:low".
func (p Parts) Used(c Cut) string {
	used := "text"
	for i, name := range modalityNames {
		if kind := Modalities(1) << i; p.All&^c.Without&kind != 0 {
			used += "," + name
			if kind == Images && c.Coarse {
				used += ":low"
			}
		}
	}
	return used
}

// element is one of the parts of a message's content.
type element struct {
	span
	kind          Modalities
	image, detail []byte // members of an image
}

// edit replaces the bytes of a span.
type edit struct {
	span
	text []byte
}

// contents calls each with the parts of the content of each message that is a list of some, and end
// after the last of them. A body of the largest size can have millions of parts: none is kept.
func (r *Request) contents(each func(element), end func()) {
	at := r.parts[inputPart]
	r.seen.elements(r.Body[at.start:at.end], func(message []byte) {
		r.seen.members(message, func(key []byte, start, stop int) bool {
			if string(key) == "content" {
				some := false
				r.seen.elements(message[start:stop], func(part []byte) { some = true; each(r.element(part)) })
				if some {
					end()
				}
			}
			return true
		})
	})
}

// place is where in the body the value is, which is a part of it.
func (r *Request) place(value []byte) span {
	start := cap(r.Body) - cap(value)
	return span{start, start + len(value)}
}

// element reads a part of a message.
func (r *Request) element(part []byte) element {
	e := element{span: r.place(part)}
	r.seen.members(part, func(key []byte, start, end int) bool {
		switch value := part[start:end]; string(key) {
		case "type":
			e.kind = kindOf(string(value))
		case "image_url":
			e.image = value
		case "detail":
			e.detail = value
		}
		return true
	})
	return e
}

// kindOf is the kind of a part by its type: those of chats, of the Responses API and of the
// Messages API.
func kindOf(name string) Modalities {
	switch name {
	case `"image_url"`, `"input_image"`, `"image"`:
		return Images
	case `"input_audio"`, `"audio_url"`:
		return Sounds
	case `"video_url"`, `"input_video"`, `"video"`:
		return Videos
	}
	return 0
}

// What an image of low detail has: the value, and an object's beginning that lacks it.
var lowValue, lowMember = []byte(`"low"`), []byte(`{"detail":"low",`)

// coarse is the edit that sets an image's detail to low: within the value of image_url
// where that is an object, and in the part where it is a text.
func (r *Request) coarse(e element) edit {
	object, detail := e.span, e.detail
	if e.image[0] == '{' {
		object, detail = r.place(e.image), nil
		r.seen.members(e.image, func(key []byte, start, end int) bool {
			if string(key) == "detail" {
				detail = e.image[start:end]
			}
			return true
		})
	}
	if detail != nil {
		return edit{r.place(detail), lowValue}
	}
	return edit{span{object.start, object.start + 1}, lowMember}
}

// cut adds the edits that leave out what the cut says, in order.
func (r *Request) cut(c Cut, edits []edit) []edit {
	for _, m := range r.inputs {
		if m.kind&c.Without != 0 {
			edits = append(edits, edit{m.span, []byte("null")})
		}
	}
	last, end, kept, gap := -1, 0, 0, false // last is the end of the last one that stays
	r.contents(func(e element) {
		if last < 0 {
			last = e.start
		}
		if end = e.end; e.kind&c.Without != 0 {
			gap = true
			return
		}
		switch {
		case gap && kept > 0:
			edits = append(edits, edit{span{last, e.start}, comma})
		case gap:
			edits = append(edits, edit{span{last, e.start}, nil})
		}
		if c.Coarse && e.kind == Images && len(e.image) > 0 {
			edits = append(edits, r.coarse(e))
		}
		last, gap = e.end, false
		kept++
	}, func() {
		if gap {
			edits = append(edits, edit{span{last, end}, nil})
		}
		last, kept, gap = -1, 0, false
	})
	return edits
}

var comma = []byte(",")

// Inputs are the modalities of one input to classify, which are members of its body.
type Inputs struct{ All Modalities }

// member is a modality of an input, and where its value is.
type member struct {
	span
	kind Modalities
}

// Inputs reads the modalities of an input to classify.
func (r *Request) Inputs() (in Inputs) {
	r.inputs = nil
	r.seen.members(r.Body, func(key []byte, start, end int) bool {
		name := string(key)
		if name == "input" {
			name = "text"
		}
		if kind := ModalityNamed(name); kind != 0 && !empty(r.Body[start:end]) {
			in.All |= kind
			r.inputs = append(r.inputs, member{span{start, end}, kind})
		}
		return true
	})
	return in
}

// Effect is what the cut comes to for the input; false if nothing would be left of it.
func (in Inputs) Effect(c Cut) (Cut, bool) {
	c = Cut{Without: c.Without & in.All}
	return c, in.All&^c.Without != 0
}

// Used names what the cut leaves of the input, as in "image,audio".
func (in Inputs) Used(c Cut) (used string) {
	for _, name := range in.Names() {
		if ModalityNamed(name)&c.Without != 0 {
			continue
		}
		if used != "" {
			used += ","
		}
		used += name
	}
	return used
}

// Names are those of the modalities.
func (in Inputs) Names() (names []string) {
	for _, name := range append([]string{"text"}, modalityNames[:]...) {
		if ModalityNamed(name)&in.All != 0 {
			names = append(names, name)
		}
	}
	return names
}
