package engineserver

import (
	"archive/tar"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"

	"gearshift/serving/engines/agents"
)

// Fetcher gets the files of models from a router.
type Fetcher struct {
	// Router is the URL of the router's admin listener, and Token the credential for it. Of several URLs, separated by
	// commas, the first that can be reached sends the files.
	Router, Token string
	// Dir is the folder that gets a folder for each model.
	Dir string
	// Limit bounds the bytes of a model's files together; 0 is [DefaultLimit].
	Limit int64
	// Client sends the requests; nil is [http.DefaultClient].
	Client *http.Client
	// Log gets nothing if nil.
	Log *slog.Logger

	running singleflight.Group // by model
}

// DefaultLimit bounds the bytes of a model's files together where nothing else is known.
const DefaultLimit = 16 << 30

// mostFiles bounds how many files a model may have.
const mostFiles = 1024

// Fetch gets the model's folder, unless there is one. The folder appears whole, with what the
// router's digest stands for, or not at all. A second call for the same model waits for the first.
func (f *Fetcher) Fetch(ctx context.Context, model string) error {
	if !filepath.IsLocal(model) || strings.ContainsAny(model, `/\`) || model[0] == '.' {
		return fmt.Errorf("cannot fetch model %q: its name is not one of a folder", model)
	}
	_, err, _ := f.running.Do(model, func() (any, error) {
		folder := filepath.Join(f.Dir, model)
		if _, err := os.Stat(folder); err == nil {
			return nil, nil
		}
		return nil, f.fetch(ctx, model, folder)
	})
	if err != nil {
		return fmt.Errorf("cannot fetch model %q: %w", model, err)
	}
	return nil
}

// ask asks routers for the files, until one of them answers.
func (f *Fetcher) ask(ctx context.Context, model string) (response *http.Response, err error) {
	routers, err := ParseRouters(f.Router)
	if err != nil {
		return nil, err
	}
	client := f.Client
	if client == nil {
		client = http.DefaultClient
	}
	for _, router := range routers {
		var request *http.Request
		if request, err = http.NewRequestWithContext(ctx, http.MethodGet, router.JoinPath(agents.ModelPath(model)).String(), nil); err != nil {
			return nil, err
		}
		var refused *refusal
		if response, err = askRouter(client, request, f.Token); err == nil || errors.As(err, &refused) {
			break
		}
	}
	return response, err
}

func (f *Fetcher) fetch(ctx context.Context, model, folder string) error {
	response, err := f.ask(ctx, model)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	want := response.Header.Get(agents.HeaderDigest)
	if len(want) != hex.EncodedLen(sha256.Size) {
		return fmt.Errorf("the router's answer has no %s", agents.HeaderDigest)
	}
	limit := cmp.Or(f.Limit, DefaultLimit)
	most := limit + mostFiles<<11 // with what a tar has for each file
	if response.ContentLength > most {
		return tooLarge(response.ContentLength, limit)
	}
	f.clean()
	partial, err := os.MkdirTemp(f.Dir, partialName)
	if err != nil {
		return err
	}
	defer os.RemoveAll(partial)
	if err := os.Chmod(partial, 0o755); err != nil {
		return err
	}
	sum := sha256.New()
	body := &io.LimitedReader{R: io.TeeReader(response.Body, sum), N: most + 1}
	err = unpack(partial, model, body, limit)
	if err == nil {
		_, err = io.Copy(io.Discard, body) // what follows the archive counts too
	}
	switch {
	case body.N <= 0:
		return tooLarge(most, limit)
	case err != nil:
		return cutShort(err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); !strings.EqualFold(got, want) {
		return fmt.Errorf("what came has the digest %.12s…, and the router says %.12s…; nothing of it is kept", got, want)
	}
	if err := os.Rename(partial, folder); err != nil {
		return err
	}
	if f.Log != nil {
		f.Log.Info("fetched", "model", model, "folder", folder, "digest", want)
	}
	return nil
}

// What is being fetched is in a folder of this name and a random end. One that is older than
// abandoned is of an engine that was killed as it fetched.
const (
	partialName = ".fetched-"
	abandoned   = time.Hour
)

// clean removes folders that were abandoned. Others, which share the folder of models, may be
// fetching.
func (f *Fetcher) clean() {
	entries, err := os.ReadDir(f.Dir)
	if err != nil {
		return // the fetch will say so
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && e.IsDir() && strings.HasPrefix(e.Name(), partialName) && time.Since(info.ModTime()) > abandoned {
			_ = os.RemoveAll(filepath.Join(f.Dir, e.Name()))
		}
	}
}

// tooLarge is the error of a model of more bytes than an engine takes.
func tooLarge(bytes, limit int64) error {
	return fmt.Errorf("it has %d bytes, and this engine takes %d at most; --fetch-limit raises that", bytes, limit)
}

// unpack writes the files of the archive into the folder, if they have no more bytes than the limit. They
// are those of one folder, which may precede their names.
func unpack(dir, model string, archive io.Reader, limit int64) error {
	t := tar.NewReader(archive)
	files, bytes := 0, int64(0)
	for {
		h, err := t.Next()
		switch {
		case err == io.EOF && files == 0:
			return errors.New("what came has no files")
		case err == io.EOF:
			return nil
		case err != nil:
			return cutShort(err)
		case h.Typeflag == tar.TypeDir:
			continue
		}
		name := strings.TrimPrefix(strings.TrimPrefix(h.Name, "./"), model+"/")
		if h.Typeflag != tar.TypeReg || !filepath.IsLocal(name) || filepath.Base(name) != name {
			return fmt.Errorf("what came has %q in it; want plain files of one folder", h.Name)
		}
		if bytes += h.Size; bytes > limit || bytes < 0 { // as declared, before any of it is written
			return tooLarge(bytes, limit)
		}
		if files++; files > mostFiles {
			return fmt.Errorf("what came has more than %d files", mostFiles)
		}
		if err := writeFile(filepath.Join(dir, name), t); err != nil {
			return err
		}
	}
}

func writeFile(path string, from io.Reader) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, from)
	if closed := file.Close(); err == nil {
		err = closed
	}
	return cutShort(err)
}

// cutShort says in words that an archive ends too early.
func cutShort(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the answer is cut short")
	}
	return err
}
