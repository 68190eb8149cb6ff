package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	// MaxDepth is how deep objects and arrays of a body may nest.
	MaxDepth = 64
	// maxShown bounds the bytes of a member's name that an answer repeats.
	maxShown = 64
	// maxNumber bounds the bytes of a number.
	maxNumber = 64
	// maxProblems bounds how many missing members an answer names.
	maxProblems = 20
)

// Decode reads the JSON body of a request into what into points to, as DecodeBytes does. Its media type must be application/json (otherwise
// 415), and it has at most so many bytes (otherwise 413).
func Decode(w http.ResponseWriter, r *http.Request, most int64, into any) error {
	raw, err := Body(w, r, most)
	if err != nil {
		return err
	}
	return DecodeBytes(raw, into)
}

// Body reads the body of a request that is declared as application/json, 415 and 413 as with Decode.
func Body(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	types := r.Header.Values("Content-Type")
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset := params["charset"]
	if err != nil || len(types) != 1 || kind != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return nil, &Error{Status: http.StatusUnsupportedMediaType, Message: "the body must be application/json"}
	}
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return nil, &Error{Status: http.StatusUnsupportedMediaType, Message: "the body must not be compressed"}
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if large := new(http.MaxBytesError); errors.As(err, &large) {
		return nil, &Error{Status: http.StatusRequestEntityTooLarge, Message: fmt.Sprintf("the body must have at most %d bytes", most)}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, &Error{Status: http.StatusRequestTimeout, Message: "the body took too long"}
	}
	if err != nil {
		return nil, (&Error{Status: http.StatusBadRequest, Message: "the body could not be read"}).With(err)
	}
	return raw, nil
}

// DecodeBytes reads JSON into what into points to, and refuses with 400 and the path of the member whatever encoding/json would pass over:
// unknown members (names in another case are unknown), members twice, data after the value, text that is not UTF-8, null, a
// number that is not one of the type. Members that are absent leave what is there, so a value decodes onto a copy of itself: objects merge,
// arrays and maps are replaced whole. A field with the tag `rest:"required"` must be there.
//
// It knows structs, maps with string keys, slices, pointers, strings, booleans, integers, floats, any and json.RawMessage. into is only meant to
// be used when the error is nil.
func DecodeBytes(raw []byte, into any) error {
	if err := scan(raw); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	return (&decoder{dec}).value(reflect.ValueOf(into).Elem(), "")
}

// scan refuses what is not one JSON value in UTF-8, and what nests too deep, before anything is built from it.
func scan(raw []byte) error {
	if !utf8.Valid(raw) {
		return Invalid(Problem{"", "the body is not UTF-8"})
	}
	depth, text := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{' || c == '[':
			if depth++; depth > MaxDepth {
				return Invalid(Problem{"", fmt.Sprintf("the body nests deeper than %d", MaxDepth)})
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	if !json.Valid(raw) {
		return Invalid(Problem{"", "the body is not one JSON value"})
	}
	return nil
}

type decoder struct{ *json.Decoder }

// next returns the next token of JSON that is known to be valid.
func (d *decoder) next() (json.Token, error) {
	t, err := d.Token()
	if err != nil {
		return nil, Invalid(Problem{"", "the body is not one JSON value"}).With(err)
	}
	return t, nil
}

var rawMessage = reflect.TypeFor[json.RawMessage]()

func (d *decoder) value(v reflect.Value, path string) error {
	if v.Type() == rawMessage {
		plain, err := d.any(path)
		if err != nil {
			return err
		}
		text, err := json.Marshal(plain)
		if err != nil {
			return err
		}
		v.SetBytes(text)
		return nil
	}
	switch v.Kind() {
	case reflect.Interface:
		plain, err := d.any(path)
		if err == nil && plain != nil {
			v.Set(reflect.ValueOf(plain))
		}
		return err
	case reflect.Pointer:
		fresh := reflect.New(v.Type().Elem())
		if !v.IsNil() {
			fresh.Elem().Set(v.Elem()) // what is merged into is a copy
		}
		if err := d.value(fresh.Elem(), path); err != nil {
			return err
		}
		v.Set(fresh)
		return nil
	}
	t, err := d.next()
	if err != nil {
		return err
	}
	switch v.Kind() {
	case reflect.Struct:
		if t != json.Delim('{') {
			return wrongType(path, "an object", t)
		}
		return d.object(v, path)
	case reflect.Map:
		if t != json.Delim('{') {
			return wrongType(path, "an object", t)
		}
		return d.dictionary(v, path)
	case reflect.Slice:
		if t != json.Delim('[') {
			return wrongType(path, "an array", t)
		}
		return d.array(v, path)
	}
	return scalar(v, path, t)
}

func scalar(v reflect.Value, path string, t json.Token) error {
	switch v.Kind() {
	case reflect.String:
		s, ok := t.(string)
		if !ok {
			return wrongType(path, "a string", t)
		}
		v.SetString(s)
	case reflect.Bool:
		b, ok := t.(bool)
		if !ok {
			return wrongType(path, "true or false", t)
		}
		v.SetBool(b)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, ok := t.(json.Number)
		if !ok || len(n) > maxNumber {
			return wrongType(path, "an integer", t)
		}
		i, err := strconv.ParseInt(string(n), 10, v.Type().Bits())
		if errors.Is(err, strconv.ErrRange) {
			return Invalid(Problem{path, "is too large or too small"})
		}
		if err != nil {
			return wrongType(path, "an integer", t)
		}
		v.SetInt(i)
	case reflect.Float64:
		n, ok := t.(json.Number)
		if !ok || len(n) > maxNumber {
			return wrongType(path, "a number", t)
		}
		f, err := strconv.ParseFloat(string(n), 64)
		if err != nil || math.IsInf(f, 0) {
			return Invalid(Problem{path, "is too large or too small"})
		}
		v.SetFloat(f)
	default:
		panic("rest: cannot decode into " + v.Type().String())
	}
	return nil
}

// wrongType says what was expected and what came, never the value.
func wrongType(path, want string, got json.Token) error {
	came := "null"
	switch g := got.(type) {
	case string:
		came = "a string"
	case bool:
		came = "true or false"
	case json.Number:
		came = "a number"
	case json.Delim:
		came = map[json.Delim]string{'{': "an object", '[': "an array"}[g]
	}
	if came == want { // such as a number that is none of ours
		return Invalid(Problem{path, "is not " + want + " that can be taken"})
	}
	return Invalid(Problem{path, "must be " + want + ", not " + came})
}

// object reads the members of an object whose opening brace has been read.
func (d *decoder) object(v reflect.Value, path string) error {
	known := fieldsOf(v.Type())
	seen := make(map[string]bool, len(known.names))
	for d.More() {
		name, at, err := d.member(path, seen)
		if err != nil {
			return err
		}
		index, ok := known.names[name]
		if !ok {
			return Invalid(Problem{at, "unknown member"})
		}
		if err := d.value(v.FieldByIndex(index), at); err != nil {
			return err
		}
	}
	if _, err := d.next(); err != nil { // the brace
		return err
	}
	var missing []Problem
	for _, name := range known.required {
		if !seen[name] && len(missing) < maxProblems {
			missing = append(missing, Problem{join(path, name), "is required"})
		}
	}
	if len(missing) > 0 {
		return Invalid(missing...)
	}
	return nil
}

// member reads a name that has not been seen yet.
func (d *decoder) member(path string, seen map[string]bool) (name, at string, err error) {
	t, err := d.next()
	if err != nil {
		return "", "", err
	}
	name, _ = t.(string)
	at = join(path, name)
	if seen[name] {
		return "", "", Invalid(Problem{at, "is there twice"})
	}
	seen[name] = true
	return name, at, nil
}

func (d *decoder) dictionary(v reflect.Value, path string) error {
	fresh := reflect.MakeMap(v.Type())
	seen := map[string]bool{}
	for d.More() {
		name, at, err := d.member(path, seen)
		if err != nil {
			return err
		}
		item := reflect.New(v.Type().Elem()).Elem()
		if err := d.value(item, at); err != nil {
			return err
		}
		fresh.SetMapIndex(reflect.ValueOf(name).Convert(v.Type().Key()), item)
	}
	v.Set(fresh)
	_, err := d.next()
	return err
}

func (d *decoder) array(v reflect.Value, path string) error {
	fresh := reflect.MakeSlice(v.Type(), 0, 0)
	for i := 0; d.More(); i++ {
		item := reflect.New(v.Type().Elem()).Elem()
		if err := d.value(item, path+"["+strconv.Itoa(i)+"]"); err != nil {
			return err
		}
		fresh = reflect.Append(fresh, item)
	}
	v.Set(fresh)
	_, err := d.next()
	return err
}

// any reads whatever comes, null included, and refuses members twice.
func (d *decoder) any(path string) (any, error) {
	t, err := d.next()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('{'):
		out := map[string]any{}
		seen := map[string]bool{}
		for d.More() {
			name, at, err := d.member(path, seen)
			if err != nil {
				return nil, err
			}
			if out[name], err = d.any(at); err != nil {
				return nil, err
			}
		}
		_, err := d.next()
		return out, err
	case json.Delim('['):
		out := []any{}
		for i := 0; d.More(); i++ {
			item, err := d.any(path + "[" + strconv.Itoa(i) + "]")
			if err != nil {
				return nil, err
			}
			out = append(out, item)
		}
		_, err := d.next()
		return out, err
	}
	return t, nil
}

// join adds a member to a path. Names that were made up are cut.
func join(path, name string) string {
	if len(name) > maxShown {
		name = strings.ToValidUTF8(name[:maxShown], "") + "…"
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

// fields are the members of a struct by their names in JSON.
type fields struct {
	names    map[string][]int
	required []string
}

var fieldCache sync.Map // reflect.Type -> *fields

func fieldsOf(t reflect.Type) *fields {
	if f, ok := fieldCache.Load(t); ok {
		return f.(*fields) //nolint:forcetypeassert // nothing else is stored
	}
	out := &fields{names: map[string][]int{}}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" || f.Anonymous && name == "" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		out.names[name] = f.Index
		if f.Tag.Get("rest") == "required" {
			out.required = append(out.required, name)
		}
	}
	fieldCache.Store(t, out)
	return out
}
