package web

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/internal/strictjson"
)

// Bounds of the extension directory, which is held in memory.
const (
	maxExtensionFile  = 1 << 20  // bytes
	maxExtensionTotal = 16 << 20 // bytes
	maxExtensionFiles = 1000
	maxExtensionDepth = 8
)

// extensionTypes are the media types of the static resources by file extension: nothing that a browser executes.
var extensionTypes = map[string]string{
	".avif": "image/avif", ".css": "text/css; charset=utf-8", ".gif": "image/gif", ".ico": "image/x-icon",
	".jpeg": "image/jpeg", ".jpg": "image/jpeg",
	".pdf": "application/pdf", ".png": "image/png", ".txt": "text/plain; charset=utf-8", ".webp": "image/webp", ".woff2": "font/woff2",
}

// extension are the additions of an operator's directory: messages, and files under /assets/ext/.
type extension struct {
	messages *Overrides
	files    map[string]file // by their path below the directory
	total    int             // bytes
	fault    error           // what was left out since something is wrong with it
}

// openExtension reads the extension directory for the first time. What is wrong is left out: a file that was copied by
// halves must not keep everybody from signing in.
func (p *Renderer) openExtension() {
	if p.cfg.Extension == "" {
		return
	}
	ext, err := p.readExtension(p.cfg.Extension)
	if err != nil {
		ext = &extension{messages: &Overrides{}, fault: err}
	}
	p.extension.Store(ext)
}

// ExtensionFault says what of the extension directory is left out since something is wrong with it, or returns nil.
func (p *Renderer) ExtensionFault() error {
	if ext := p.extension.Load(); ext != nil {
		return ext.fault
	}
	return nil
}

// ReloadExtension reads the extension directory again and replaces what was read before. If anything in it is wrong, it
// replaces nothing. Concurrent calls wait for each other. Without a directory it does nothing.
func (p *Renderer) ReloadExtension(ctx context.Context) error {
	if p.cfg.Extension == "" {
		return nil
	}
	p.reload.Lock()
	defer p.reload.Unlock()
	if err := ctx.Err(); err != nil { // waited too long
		return err
	}
	ext, err := p.readExtension(p.cfg.Extension)
	if err != nil {
		return fmt.Errorf("page: extension: %w", err)
	}
	if ext.fault != nil {
		return fmt.Errorf("page: extension: %w", ext.fault)
	}
	p.extension.Store(ext)
	p.cfg.Log.Info("extension read", zap.Int("locales", len(ext.messages.Locales)), zap.Int("files", len(ext.files)))
	return nil
}

// readExtension reads the directory. <locale>.json and default.json at the top are messages; every other file of a
// known type is a resource. Symbolic links, hidden files and unknown types are left out. It opens nothing outside the
// directory, even if the directory changes meanwhile.
func (p *Renderer) readExtension(dir string) (*extension, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // only read
	ext := &extension{messages: &Overrides{Locales: map[string]map[string]string{}}, files: map[string]file{}}
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && name == ".":
			return err
		case err != nil:
			ext.fault = errors.Join(ext.fault, err)
			return fs.SkipDir
		case name == ".":
			return nil
		case strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir() && strings.Count(name, "/")+1 >= maxExtensionDepth:
			ext.fault = errors.Join(ext.fault, fmt.Errorf("%s: directories nest deeper than %d", name, maxExtensionDepth))
			return fs.SkipDir
		case d.IsDir():
			return nil
		case !d.Type().IsRegular():
			p.cfg.Log.Warn("extension: file left out: not a regular file", zap.String("name", name))
			return nil
		}
		if err := p.addExtension(ext, root, name); err != nil {
			ext.fault = errors.Join(ext.fault, err)
		}
		return nil
	})
	return ext, err
}

func (p *Renderer) addExtension(ext *extension, root *os.Root, name string) error {
	ending := strings.ToLower(path.Ext(name))
	kind, known := extensionTypes[ending]
	isMessages := ending == ".json" && !strings.Contains(name, "/")
	if !known && !isMessages {
		p.cfg.Log.Warn("extension: file left out: its type is not served", zap.String("name", name))
		return nil
	}
	body, err := readFile(root, name)
	if err != nil {
		return err
	}
	if ext.total += len(body); ext.total > maxExtensionTotal {
		return fmt.Errorf("the files have more than %d bytes", maxExtensionTotal)
	}
	if isMessages {
		return ext.addMessages(name, body)
	}
	if len(ext.files) == maxExtensionFiles {
		return fmt.Errorf("there are more than %d files", maxExtensionFiles)
	}
	sum := sha256.Sum256(body)
	ext.files[name] = file{name: hex.EncodeToString(sum[:16]), contentType: kind, body: body}
	return nil
}

// readFile returns a regular file of a bounded size.
func readFile(root *os.Root, name string) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s is not a regular file", name), err)
	}
	body, err := io.ReadAll(io.LimitReader(f, maxExtensionFile+1))
	if err != nil {
		return nil, err
	}
	if len(body) > maxExtensionFile {
		return nil, fmt.Errorf("%s has more than %d bytes", name, maxExtensionFile)
	}
	return body, nil
}

// addMessages adds the texts of a file, except those that no page could show.
func (e *extension) addMessages(name string, body []byte) error {
	locale := strings.TrimSuffix(name, path.Ext(name))
	var texts map[string]string
	if err := readTexts(name, body, &texts); err != nil {
		return err
	}
	if locale != "default" {
		if err := CheckLocale(locale); err != nil {
			return fmt.Errorf("%s: the name %w, nor default", name, err)
		}
		if e.messages.Locales[localeKey(locale)] != nil {
			return fmt.Errorf("%s: the locale is there twice", name)
		}
	}
	fault := dropUnusable(name, body, texts)
	if locale == "default" {
		e.messages.Default = texts
	} else {
		e.messages.Locales[localeKey(locale)] = texts
	}
	return fault
}

// readTexts reads a file of texts. Errors have the line.
func readTexts(name string, body []byte, texts *map[string]string) error {
	if line, err := strictjson.Fault(body); err != nil {
		return fmt.Errorf("%s:%d: not JSON: %w", name, line, err)
	}
	if err := strictjson.Check(body, jsonapi.MaxDepth); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	err := strictjson.Decode(body, texts)
	wrong := new(strictjson.Error)
	if !errors.As(err, &wrong) {
		return err
	}
	lines := keyLines(body)
	var faults []error
	for _, p := range wrong.Problems {
		if p.Path == "" {
			return fmt.Errorf("%s:1: %w", name, p.Wrong)
		}
		faults = append(faults, fmt.Errorf("%s:%d: %q: %w", name, lines[p.Path], p.Path, p.Wrong))
	}
	return errors.Join(faults...)
}

// maxMeant bounds the unknown keys of a file for which the key that was meant is looked up, since that takes time.
const maxMeant = 100

// dropUnusable removes the texts that cannot be shown, and returns why and where they stand.
func dropUnusable(name string, body []byte, texts map[string]string) error {
	lines := keyLines(body)
	var faults []error
	looked := 0
	inOrder := func(a, b string) int { return cmp.Or(lines[a]-lines[b], strings.Compare(a, b)) }
	for _, key := range slices.SortedFunc(maps.Keys(texts), inOrder) {
		err := checkMessage(key, texts[key])
		if err == nil && !IsKey(key) && looked < maxMeant {
			looked++
			if meant := MeantKey(key); meant != "" {
				err = fmt.Errorf("it is the key of no text: did you mean %s?", meant)
			}
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%s:%d: %q: %w", name, lines[key], key, err))
			delete(texts, key)
		}
	}
	return errors.Join(faults...)
}

// keyLines returns the lines on which the keys of an object of texts stand.
func keyLines(body []byte) map[string]int {
	lines := map[string]int{}
	d := json.NewDecoder(bytes.NewReader(body))
	for isKey := false; ; isKey = !isKey {
		t, err := d.Token()
		if err != nil {
			return lines
		}
		if key, ok := t.(string); ok && isKey {
			lines[key] = 1 + bytes.Count(body[:d.InputOffset()], []byte("\n"))
		}
	}
}

// serveExtension serves GET /assets/ext/…: the resources of the extension directory as last read.
func (p *Renderer) serveExtension(w http.ResponseWriter, r *http.Request, name string) {
	ext := p.extension.Load()
	if ext == nil {
		p.Error(w, r, http.StatusNotFound, "error.not_found", "")
		return
	}
	f, ok := ext.files[name]
	if !ok {
		p.Error(w, r, http.StatusNotFound, "error.not_found", "")
		return
	}
	f.serve(w, r, "no-cache")
}
