package wire

import (
	"bytes"
	"errors"
	"io"
	"mime/multipart"
	"strings"
	"testing"
)

// form is a form with a file and fields, as a client's library writes it.
func form(t testing.TB, file string, fields ...string) (body []byte, boundary string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	part, err := w.CreateFormFile("file", "a.wav")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(part, file)
	for i := 0; i < len(fields); i += 2 {
		if err := w.WriteField(fields[i], fields[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	return b.Bytes(), w.Boundary()
}

func TestForms(t *testing.T) {
	file := "RIFF\x00\xff\r\n\r\n--no boundary\r\nmodel=auto " + strings.Repeat("x", 64_000)
	body, boundary := form(t, file, "model", "auto", "stream", "true", "language", "en")
	r, err := ParseForm(body, boundary)
	if err != nil || r.Model != "auto" || !r.Stream {
		t.Fatalf("%+v, %v", r, err)
	}
	if n := r.Prompt().Tokens(); n < 50 || n > 200 {
		t.Errorf("%d tokens of audio", n)
	}
	out := []byte(read(r.For("org/whisper-large", Cut{})))
	if want := bytes.Replace(body, []byte("\r\n\r\nauto\r\n"), []byte("\r\n\r\norg/whisper-large\r\n"), 1); !bytes.Equal(out, want) {
		t.Errorf("with another model: %q", out[:200])
	}
	again, err := multipart.NewReader(bytes.NewReader(out), boundary).ReadForm(1 << 20)
	if err != nil || again.Value["model"][0] != "org/whisper-large" || again.Value["language"][0] != "en" || again.File["file"][0].Size != int64(len(file)) {
		t.Errorf("read again: %+v, %v", again, err)
	}
	if got := read(r.For("auto", Cut{})); got != string(body) {
		t.Error("with the same model the form has changed")
	}
}

func TestFormsAsOthersWriteThem(t *testing.T) {
	for name, body := range map[string]string{
		"a text before":       "hello\r\n--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nauto\r\n--b--\r\n",
		"no end of the line":  "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nauto\r\n--b--",
		"other header fields": "--b\r\ncontent-type: text/plain\r\ncontent-disposition: form-data; name=model\r\n\r\nauto\r\n--b--\r\n",
		"spaces":              "--b \t\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nauto\r\n--b--\r\n",
		"a file named model":  "--b\r\nContent-Disposition: form-data; name=\"model\"; filename=\"x\"\r\n\r\nnone\r\n--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nauto\r\n--b--\r\n",
	} {
		if r, err := ParseForm([]byte(body), "b"); err != nil || r.Model != "auto" {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

func TestFaultsOfForms(t *testing.T) {
	const disposition = "Content-Disposition: form-data; name=\"model\"\r\n\r\n"
	for name, body := range map[string]string{
		"nothing": "", "JSON": `{"model":"auto"}`, "another boundary": "--c\r\n" + disposition + "auto\r\n--c--\r\n",
		"no end": "--b\r\n" + disposition + "auto", "no header": "--b\r\nauto\r\n--b--\r\n", "a boundary alone": "--b", "half a line": "--b\r",
		"no disposition": "--b\r\nX: y\r\n\r\nauto\r\n--b--\r\n", "another disposition": "--b\r\nContent-Disposition: attachment\r\n\r\nauto\r\n--b--\r\n",
		"too many parts":    strings.Repeat("--b\r\n"+disposition[:38]+"x\"\r\n\r\n\r\n", 1002) + "--b--\r\n",
		"an endless header": "--b\r\nX: " + strings.Repeat("x", 20<<10) + "\r\n" + disposition + "auto\r\n--b--\r\n",
	} {
		_, err := ParseForm([]byte(body), "b")
		var e Error
		if !errors.As(err, &e) || e.Code != "invalid_form" || e.Type != InvalidRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"Model", "MODEL", "Stream"} {
		body, boundary := form(t, "RIFF", "model", "auto", name, "other")
		var e Error
		if _, err := ParseForm(body, boundary); !errors.As(err, &e) || e.Code != "ambiguous_member" || string(e.Param) != strings.ToLower(name) {
			t.Errorf("%s beside the model: %v", name, err)
		}
	}
	if _, err := ParseForm([]byte("--\r\n"), ""); err == nil {
		t.Error("a form without a boundary passes")
	}
}

// FuzzParseForm holds that what passes is read as the standard library reads it, and that
// another model changes nothing but the model.
func FuzzParseForm(f *testing.F) {
	body, boundary := form(f, "RIFF", "model", "auto", "stream", "1")
	f.Add(body, boundary)
	f.Add([]byte("--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nauto\r\n--b--"), "b")
	f.Add([]byte("--b\r\n--b--"), "b")
	f.Fuzz(func(t *testing.T, body []byte, boundary string) {
		r, err := ParseForm(body, boundary)
		if err != nil {
			return
		}
		before := bytes.Clone(body)
		out := []byte(read(r.For("x", Cut{})))
		if !bytes.Equal(body, before) {
			t.Fatal("the body was changed")
		}
		again, err := ParseForm(out, boundary)
		if err != nil || len(again.models) != len(r.models) || len(r.models) > 0 && again.Model != "x" {
			t.Errorf("%q became %q: %v", body, out, err)
		}
	})
}
