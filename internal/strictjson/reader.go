package strictjson

import (
	"encoding"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/gatehouse-id/gatehouse/internal/coded"
	"github.com/gatehouse-id/gatehouse/internal/spelling"
)

// reader reads values from text that is known to be JSON.
type reader struct {
	*json.Decoder

	unknown []Problem // members that are not known, which are read over so that all of them are found
	// merging says that an object that is read has its values already, so no member is required.
	merging bool
}

var rawMessage = reflect.TypeFor[json.RawMessage]()

// value reads the next value into v.
func (d *reader) value(v reflect.Value, path string) error {
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
	if v.CanAddr() && isUnmarshaler(v.Addr().Type()) {
		return d.unmarshal(v, path)
	}
	switch v.Kind() {
	case reflect.Interface:
		plain, err := d.any(path)
		if err == nil && plain != nil {
			v.Set(reflect.ValueOf(plain))
		}
		return err
	case reflect.Pointer:
		fresh, read := reflect.New(v.Type().Elem()), d.fresh
		if !v.IsNil() {
			fresh.Elem().Set(v.Elem()) // values are merged into a copy
			read = d.value
		}
		if err := read(fresh.Elem(), path); err != nil {
			return err
		}
		v.Set(fresh)
		return nil
	}
	t, err := d.Token()
	if err != nil {
		return err
	}
	switch v.Kind() {
	case reflect.Struct:
		if t != json.Delim('{') {
			return wrongType(path, wantObject, t)
		}
		return d.object(v, path)
	case reflect.Map:
		if t != json.Delim('{') {
			return wrongType(path, wantObject, t)
		}
		return d.dictionary(v, path)
	case reflect.Slice:
		if t != json.Delim('[') {
			return wrongType(path, wantArray, t)
		}
		return d.array(v, path)
	}
	return scalar(v, path, t)
}

// fresh reads the next value into v, which has none yet.
func (d *reader) fresh(v reflect.Value, path string) error {
	before := d.merging
	d.merging = false
	err := d.value(v, path)
	d.merging = before
	return err
}

func scalar(v reflect.Value, path string, t json.Token) error {
	switch v.Kind() {
	case reflect.String:
		s, ok := t.(string)
		if !ok {
			return wrongType(path, wantString, t)
		}
		v.SetString(s)
	case reflect.Bool:
		b, ok := t.(bool)
		if !ok {
			return wrongType(path, wantBool, t)
		}
		v.SetBool(b)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, ok := t.(json.Number)
		if !ok || len(n) > maxNumber {
			return wrongType(path, wantInteger, t)
		}
		i, err := strconv.ParseInt(string(n), 10, v.Type().Bits())
		if errors.Is(err, strconv.ErrRange) {
			return invalid(path, coded.New("number_size", "is too large or too small"))
		}
		if err != nil {
			return wrongType(path, wantInteger, t)
		}
		v.SetInt(i)
	case reflect.Float64:
		n, ok := t.(json.Number)
		if !ok || len(n) > maxNumber {
			return wrongType(path, wantNumber, t)
		}
		f, err := strconv.ParseFloat(string(n), 64)
		if err != nil || math.IsInf(f, 0) {
			return invalid(path, coded.New("number_size", "is too large or too small"))
		}
		v.SetFloat(f)
	default:
		panic("strictjson: cannot decode into " + v.Type().String())
	}
	return nil
}

var (
	wantObject  = coded.New("json_object", "an object")
	wantArray   = coded.New("json_array", "an array")
	wantString  = coded.New("json_string", "a string")
	wantBool    = coded.New("json_bool", "true or false")
	wantInteger = coded.New("json_integer", "an integer")
	wantNumber  = coded.New("json_number", "a number")
)

// wrongType says what was expected and what came, never the value.
func wrongType(path string, want *coded.Error, got json.Token) error {
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
	if came == want.Error() { // such as a number that is too long
		return invalid(path, coded.Errorf(want.Code, "", "is not %s that can be taken", want))
	}
	return invalid(path, coded.Errorf(want.Code, "", "must be %s, not %s", want, came))
}

// object reads the members of an object whose opening brace has been read.
func (d *reader) object(v reflect.Value, path string) error {
	known, before := fieldsOf(v.Type()), len(d.unknown)
	seen := make(map[string]bool, len(known.names))
	for d.More() {
		name, at, err := d.member(path, seen)
		if err != nil {
			return err
		}
		index, ok := known.names[name]
		if !ok {
			if err := d.pass(name, at, known); err != nil {
				return err
			}
			continue
		}
		if err := d.value(v.FieldByIndex(index), at); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil { // the brace
		return err
	}
	if d.merging || len(d.unknown) > before { // what is missing may be what is misspelled
		return nil
	}
	var missing []Problem
	for _, name := range known.required {
		if !seen[name] && len(missing) < maxProblems {
			missing = append(missing, Problem{join(path, name), coded.New("required", "is required")})
		}
	}
	if len(missing) > 0 {
		return &Error{missing}
	}
	return nil
}

// pass reads over the value of an unknown member and notes the member.
func (d *reader) pass(name, at string, known *fields) error {
	wrong := coded.New("unknown", "unknown member")
	if meant := spelling.Word(name, slices.Collect(maps.Keys(known.names))); meant != "" {
		wrong = coded.Errorf("unknown_meant", "meant", "unknown member, did you mean %s?", meant)
	}
	if len(d.unknown) < maxProblems {
		d.unknown = append(d.unknown, Problem{at, wrong})
	}
	_, err := d.any(at)
	return err
}

// member reads a name that has not been seen yet.
func (d *reader) member(path string, seen map[string]bool) (name, at string, err error) {
	t, err := d.Token()
	if err != nil {
		return "", "", err
	}
	name, _ = t.(string)
	at = join(path, name)
	if seen[name] {
		return "", "", invalid(at, coded.New("twice", "is there twice"))
	}
	seen[name] = true
	return name, at, nil
}

func (d *reader) dictionary(v reflect.Value, path string) error {
	fresh := reflect.MakeMap(v.Type())
	seen := map[string]bool{}
	for d.More() {
		name, at, err := d.member(path, seen)
		if err != nil {
			return err
		}
		item := reflect.New(v.Type().Elem()).Elem()
		if err := d.fresh(item, at); err != nil {
			return err
		}
		fresh.SetMapIndex(reflect.ValueOf(name).Convert(v.Type().Key()), item)
	}
	v.Set(fresh)
	_, err := d.Token()
	return err
}

func (d *reader) array(v reflect.Value, path string) error {
	fresh := reflect.MakeSlice(v.Type(), 0, 0)
	for i := 0; d.More(); i++ {
		item := reflect.New(v.Type().Elem()).Elem()
		if err := d.fresh(item, path+"["+strconv.Itoa(i)+"]"); err != nil {
			return err
		}
		fresh = reflect.Append(fresh, item)
	}
	v.Set(fresh)
	_, err := d.Token()
	return err
}

// any reads whatever comes, null included, and refuses members twice.
func (d *reader) any(path string) (any, error) {
	t, err := d.Token()
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
		_, err := d.Token()
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
		_, err := d.Token()
		return out, err
	}
	return t, nil
}

var (
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func isUnmarshaler(t reflect.Type) bool {
	return t.Implements(jsonUnmarshaler) || t.Implements(textUnmarshaler)
}

// unmarshal leaves the value to a type that reads itself.
func (d *reader) unmarshal(v reflect.Value, path string) error {
	plain, err := d.any(path)
	if err != nil {
		return err
	}
	text, err := json.Marshal(plain)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v.Addr().Interface()); err != nil {
		return invalid(path, coded.New("invalid", "is not valid"))
	}
	return nil
}

// join adds a member to a path. Long names are cut.
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
