package jsonresponse

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// object appends the members of a JSON object. Those with If leave out what is empty.
type object struct {
	buf   []byte
	start int
}

func begin(dst []byte) object {
	dst = append(dst, '{')
	return object{dst, len(dst)}
}

func (o *object) end() []byte { return append(o.buf, '}') }

// name begins a member. Names need no escapes.
func (o *object) name(s string) {
	if len(o.buf) > o.start {
		o.buf = append(o.buf, ',')
	}
	o.buf = append(o.buf, '"')
	o.buf = append(o.buf, s...)
	o.buf = append(o.buf, '"', ':')
}

func (o *object) text(name, value string) {
	o.name(name)
	o.buf = appendText(o.buf, value)
}

func (o *object) textIf(name, value string) {
	if value != "" {
		o.text(name, value)
	}
}

func (o *object) number(name string, value int64) {
	o.name(name)
	o.buf = strconv.AppendInt(o.buf, value, 10)
}

func (o *object) numberIf(name string, value int64) {
	if value != 0 {
		o.number(name, value)
	}
}

func (o *object) bool(name string, value bool) {
	o.name(name)
	o.buf = strconv.AppendBool(o.buf, value)
}

func (o *object) listIf(name string, values []string) {
	if len(values) > 0 {
		o.name(name)
		o.buf = appendList(o.buf, values)
	}
}

func (o *object) writtenIf(name string, value Written) {
	if value != "" {
		o.name(name)
		o.buf = append(o.buf, value...)
	}
}

func appendList(dst []byte, values []string) []byte {
	if values == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, '[')
	for i, v := range values {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendText(dst, v)
	}
	return append(dst, ']')
}

// appendMap writes an object with its members in order of their names.
func appendMap[V any](dst []byte, of map[string]V, value func(dst []byte, v V) []byte) []byte {
	if of == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, '{')
	if len(of) == 1 { // as usual: nothing to sort
		for name, v := range of {
			dst = append(appendText(dst, name), ':')
			dst = value(dst, v)
		}
		return append(dst, '}')
	}
	for i, name := range slices.Sorted(maps.Keys(of)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendText(dst, name), ':')
		dst = value(dst, of[name])
	}
	return append(dst, '}')
}

// appendText writes a string. One with anything that encoding/json could escape goes there.
func appendText(dst []byte, s string) []byte {
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ' || c > '~', c == '"', c == '\\', c == '<', c == '>', c == '&':
			quoted, _ := json.Marshal(s) //nolint:errchkjson // a string is never refused
			return append(dst, quoted...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}
