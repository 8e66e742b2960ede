package classifier

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"gearshift/serving/backend"
	"gearshift/serving/backend/models"
	"gearshift/serving/backend/tokenizer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake tells inputs apart by their first token, pixel and sample.
type fake struct {
	size   int // of the vocabulary
	step   chan struct{}
	err    error
	mu     sync.Mutex
	widest int
}

func (f *fake) Layout() Layout {
	return Layout{Labels: 3, Vocabulary: f.size, ImageSide: 4, AudioSamples: 10}
}

func (f *fake) Classify(batch []Input) (logits []float32, err error) {
	if f.step != nil {
		<-f.step
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.widest = max(f.widest, len(batch))
	for _, in := range batch {
		row := make([]float32, 3)
		if in.Tokens != nil {
			row[0] = float32(in.Tokens[0])
		}
		if in.Image != nil {
			row[1] = 10 * in.Image[0]
		}
		if in.Audio != nil {
			row[2] = 10 * in.Audio[0]
		}
		logits = append(logits, row...)
	}
	return logits, f.err
}

func (f *fake) Close() {}

// words is a tokenizer of a made model.
func words(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	dir := t.TempDir()
	o := models.Options{Sizes: []models.Size{{Name: "m", Layers: 1, Width: 4}}, Context: 8}
	if err := models.MakeClassifiers(t.Context(), dir, o, func(string, int) {}); err != nil {
		t.Fatal(err)
	}
	f, err := ReadFolder(filepath.Join(dir, "m"))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Labels) != models.Labels || f.Context != 8 || f.SamplingRate != models.AudioSamples {
		t.Errorf("read %+v", f)
	}
	return f.Tokenizer
}

func config() Config {
	return Config{Name: "fake", Labels: []string{"text", "image", "audio"}, Context: 8, SamplingRate: 10, MaxBatch: 3}
}

func start(t testing.TB, f *fake, c Config) *Engine {
	t.Helper()
	tok := words(t)
	f.size = tok.Size()
	e, err := New(f, tok, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func ask(t testing.TB, e *Engine, body string) (int, string) {
	t.Helper()
	response, err := e.RoundTrip(httptest.NewRequest("POST", backend.ClassifyPath, strings.NewReader(body)))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// white is a picture in base 64.
func white(t testing.TB, width, height int) string {
	t.Helper()
	picture := image.NewGray(image.Rect(0, 0, width, height))
	for i := range picture.Pix {
		picture.Pix[i] = 0xff
	}
	var b bytes.Buffer
	if err := png.Encode(&b, picture); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// wav is the samples of the channels, one after the other, as a file.
func wav(kind, channels, bits, rate int, samples ...int16) []byte {
	b := []byte("RIFF\x00\x00\x00\x00WAVEfmt ")
	for _, n := range []uint32{16, uint32(kind | channels<<16), uint32(rate), uint32(2 * rate), uint32(2 | bits<<16)} {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	b = binary.LittleEndian.AppendUint32(append(b, "data"...), uint32(2*len(samples)))
	for _, s := range samples {
		b = binary.LittleEndian.AppendUint16(b, uint16(s))
	}
	return b
}

func TestModalities(t *testing.T) {
	e := start(t, &fake{}, config())
	picture := white(t, 9, 5)
	sound := base64.StdEncoding.EncodeToString(wav(1, 1, 16, 10, 0x7fff, 0, 0))
	for _, c := range []struct{ body, label, modalities string }{
		{`{"input": "hello"}`, "text", `["text"]`},
		{fmt.Sprintf(`{"image": %q}`, picture), "image", `["image"]`},
		{fmt.Sprintf(`{"audio": %q, "input": ""}`, sound), "audio", `["audio"]`},
		{fmt.Sprintf(`{"audio": %q, "image": %q, "input": "hello"}`, sound, picture), "text", `["text","image","audio"]`},
	} {
		status, text := ask(t, e, c.body)
		var a backend.Classification
		if err := json.Unmarshal([]byte(text), &a); err != nil || status != 200 || len(a.Data) != 1 || a.Data[0].Label != c.label || a.Model != "fake" ||
			a.Data[0].Classes != 3 || !strings.Contains(text, `"modalities":`+c.modalities) {
			t.Errorf("%.40s: %d %s", c.body, status, text)
			continue
		}
		sum := 0.0
		for _, p := range a.Data[0].Probs {
			sum += p
		}
		if sum < 0.999 || sum > 1.001 {
			t.Errorf("probabilities %v", a.Data[0].Probs)
		}
	}
}

func TestBadRequests(t *testing.T) {
	e := start(t, &fake{}, config())
	in64 := base64.StdEncoding.EncodeToString
	for body, want := range map[string]string{
		`{}`:                     "nothing to classify",
		`{"input": ""}`:          "nothing to classify",
		`{"input": 3}`:           `\"input\" must be a string`,
		`{"image": "§"}`:         "illegal base64",
		`{"image": 3}`:           `\"image\" must be a string`,
		`{"image": "aGk="}`:      "must be a PNG or JPEG",
		`{"audio": "aGk="}`:      "it is no RIFF WAVE file",
		`{"input": "a`:           "",
		`{"input": "abcdefghi"}`: `"code":"context_length_exceeded"`,
		fmt.Sprintf(`{"input": %q}`, strings.Repeat("x", 1000)):          `"code":"context_length_exceeded"`,
		fmt.Sprintf(`{"image": %q}`, white(t, 5000, 1)):                  "5000×1 pixels",
		fmt.Sprintf(`{"audio": %q}`, in64(wav(3, 1, 16, 10, 1))):         "its format is another",
		fmt.Sprintf(`{"audio": %q}`, in64(wav(1, 1, 8, 10, 1))):          "its format is another",
		fmt.Sprintf(`{"audio": %q}`, in64(wav(1, 1, 16, 10))):            "it holds no sound",
		fmt.Sprintf(`{"audio": %q}`, in64(wav(1, 1, 16, 10, 1, 2)[:46])): `it is truncated: of the 4 bytes of its part \"data\" there are 2`,
		fmt.Sprintf(`{"image": %q}`, cut(white(t, 9, 5), 60)):            "it is truncated: the file ends within the image",
		fmt.Sprintf(`{"image": %q}`, cut(white(t, 9, 5), 45)):            "it is truncated: the file ends within the image",
		fmt.Sprintf(`{"image": %q}`, cut(white(t, 9, 5), 24)):            "it is truncated: the file ends within the image",
		fmt.Sprintf(`{"audio": %q}`, in64(wav(1, 1, 16, 10, 1)[:30])):    `it is truncated: of the 16 bytes of its part \"fmt \" there are 10`,
	} {
		if status, text := ask(t, e, body); status != 400 || !strings.Contains(text, want) {
			t.Errorf("%.40s: %d %s", body, status, text)
		}
	}
	response, err := e.RoundTrip(httptest.NewRequest("POST", backend.ChatPath, nil))
	if err != nil || response.StatusCode != 404 {
		t.Errorf("a chat: %v, %v", response, err)
	}
}

// Sound comes to the model at its own rate and length, from any channels.
func TestSound(t *testing.T) {
	got, err := readWAV(wav(1, 2, 16, 20, 0x4000, 0, 1, 1, -0x4000, -0x4000), 10, 4)
	if want := []float32{0.25, -0.5, 0, 0}; err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}

// What waits is computed together, in order, and one whose client has gone not at
// all.
func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{step: make(chan struct{})}
		e := start(t, f, config())
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range 5 {
			all.Go(func() {
				request := httptest.NewRequestWithContext(t.Context(), "POST", backend.ClassifyPath, strings.NewReader(`{"input": "a"}`))
				if i == 2 {
					request = request.WithContext(ctx)
				}
				response, err := e.RoundTrip(request)
				if err == nil {
					response.Body.Close()
				}
				if (err != nil) != (i == 2) {
					t.Errorf("request %d: %v", i, err)
				}
			})
			synctest.Wait()
		}
		if l := e.Load(); l.Running != 1 || l.Waiting != 4 {
			t.Errorf("load %+v", l)
		}
		cancel()
		synctest.Wait()
		for range 2 {
			f.step <- struct{}{}
			synctest.Wait()
		}
		all.Wait()
		if f.widest != 3 {
			t.Errorf("at most %d at once", f.widest)
		}
		close(f.step)
	})
}

func TestFailures(t *testing.T) {
	sum := errors.New("the sum is wrong")
	e := start(t, &fake{err: sum}, config())
	request := func() error {
		_, err := e.RoundTrip(httptest.NewRequest("POST", backend.ClassifyPath, strings.NewReader(`{"input": "a"}`)))
		return err
	}
	if err := request(); !errors.Is(err, sum) {
		t.Errorf("%v", err)
	}
	e.Close()
	if err := request(); err != ErrClosed {
		t.Errorf("after Close: %v", err)
	}
	tok := words(t)
	for want, change := range map[string]func(*Config, *fake){
		"the tokenizer does not match": func(_ *Config, f *fake) { f.size++ },
		"has 263 tokens, the model 0":  func(_ *Config, f *fake) { f.size = 0 },
		"there are 2 labels":           func(c *Config, _ *fake) { c.Labels = c.Labels[:2] },
		"at least 1 must be computed":  func(c *Config, _ *fake) { c.MaxBatch = 0 },
		"a sampling rate of 0":         func(c *Config, _ *fake) { c.SamplingRate = 0 },
	} {
		c, f := config(), &fake{size: tok.Size()}
		change(&c, f)
		if _, err := New(f, tok, c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestFolderFaults(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		"{": "not the JSON",
		`{"max_position_embeddings": 8, "sampling_rate": 8}`: "it has one of vocab_size and max_position_embeddings",
		`{"vocab_size": 8, "sampling_rate": 8}`:              "it has one of vocab_size and max_position_embeddings",
		`{"sampling_rate": -8}`:                              "negative",
		`{"max_position_embeddings": 8, "sampling_rate": 8, "vocab_size": 8, "id2label": {"1": "x"}}`: "none with the number 0",
		`{"max_position_embeddings": 8, "sampling_rate": 8, "vocab_size": 8}`:                         "tokenizer.json",
	} {
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadFolder(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// Whatever the bytes, a picture and a sound are of the model's size or refused.
func FuzzMedia(f *testing.F) {
	f.Add(wav(1, 2, 16, 20, 1, 2, 3, 4))
	picture, _ := base64.StdEncoding.DecodeString(white(f, 3, 2))
	f.Add(picture)
	f.Fuzz(func(t *testing.T, data []byte) {
		if values, err := readWAV(data, 8000, 100); err == nil && len(values) != 100 {
			t.Errorf("%d samples", len(values))
		}
		if values, err := readImage(data, 4); err == nil && len(values) != 48 {
			t.Errorf("%d pixels", len(values))
		}
	})
}

// cut is the first bytes of what is in base 64.
func cut(text string, n int) string {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(data[:n])
}
