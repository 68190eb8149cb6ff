// Package strictjson reads JSON strictly, so two readers cannot understand a text differently: it rejects duplicate and
// unknown members, text that is not UTF-8, and data after the value.
package strictjson

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/gatehouse-id/gatehouse/internal/coded"
)

const (
	// maxShown bounds the bytes of a member's name that an error repeats.
	maxShown = 64
	// maxNumber bounds the bytes of a number.
	maxNumber = 64
	// maxProblems bounds how many missing members an error names.
	maxProblems = 20
)

// Problem is the problem at one place.
type Problem struct {
	Path  string
	Wrong *coded.Error
}

// Error says what is wrong, and where. It has at least one problem.
type Error struct{ Problems []Problem }

func (e *Error) Error() string {
	first := e.Problems[0]
	if first.Path == "" {
		return first.Wrong.Error()
	}
	return first.Path + ": " + first.Wrong.Error()
}

func invalid(path string, wrong *coded.Error) *Error { return &Error{[]Problem{{path, wrong}}} }

// Check refuses text that is not one JSON value in UTF-8, or whose objects and arrays nest deeper than depth, before
// anything is built from it.
func Check(raw []byte, depth int) error {
	if !utf8.Valid(raw) {
		return coded.New("json", "is not UTF-8")
	}
	open, text := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{' || c == '[':
			if open++; open > depth {
				return coded.Errorf("json_depth", "max", "nests deeper than %d", depth)
			}
		case c == '}' || c == ']':
			open--
		}
	}
	if !json.Valid(raw) {
		return coded.New("json", "is not one JSON value")
	}
	return nil
}

// Fault returns the reason why a text is not one JSON value in UTF-8, and the line where it stops being one.
func Fault(raw []byte) (line int, err error) {
	for at := 0; at < len(raw); {
		r, size := utf8.DecodeRune(raw[at:])
		if r == utf8.RuneError && size == 1 {
			return lineOf(raw, at), coded.New("json", "not UTF-8")
		}
		at += size
	}
	var syntax *json.SyntaxError
	if err = json.Unmarshal(raw, new(json.RawMessage)); errors.As(err, &syntax) {
		line = lineOf(raw, max(0, int(syntax.Offset)-1))
	}
	return line, err
}

// WrongType names the member whose value encoding/json could not take, and says what that is. Other errors: "".
func WrongType(err error) string {
	wrong := new(json.UnmarshalTypeError)
	if !errors.As(err, &wrong) {
		return ""
	}
	kind, _, _ := strings.Cut(wrong.Value, " ") // of a number it has the digits too
	return cmp.Or(wrong.Field, "the whole") + " must not be of the type " + kind
}

func lineOf(raw []byte, at int) int { return 1 + bytes.Count(raw[:at], []byte("\n")) }

// Decode reads JSON that Check has accepted into what into points to. With an *Error it refuses whatever encoding/json
// would pass over: unknown members (names in another case are unknown), members twice, null, a number that is not one
// of the type. Members that are absent leave what is there, so a value decodes onto a copy of itself: objects merge,
// arrays and maps are replaced whole. A field with the tag `rest:"required"` must be there.
//
// It knows structs, maps with string keys, slices, pointers, strings, booleans, integers, floats, any, json.RawMessage,
// and types that unmarshal themselves. into must only be used when the error is nil.
func Decode(raw []byte, into any) error { return newReader(raw).decode(into) }

// Merge is Decode onto a value that is complete: a member that must be there can be absent, and stays as it is. Entries
// of arrays and maps are new values, which need theirs.
func Merge(raw []byte, into any) error {
	d := newReader(raw)
	d.merging = true
	return d.decode(into)
}

func (d *reader) decode(into any) error {
	err := d.value(reflect.ValueOf(into).Elem(), "")
	if len(d.unknown) == 0 {
		return err
	}
	all := d.unknown
	if e := new(Error); errors.As(err, &e) {
		all = append(all, e.Problems...)
	} else if err != nil {
		return err
	}
	return &Error{all[:min(len(all), maxProblems)]}
}

// Value reads JSON that Check has accepted: an object is a map[string]any, a number a json.Number. Members twice are
// refused with an *Error.
func Value(raw []byte) (any, error) { return newReader(raw).any("") }

func newReader(raw []byte) *reader {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	return &reader{Decoder: dec}
}
