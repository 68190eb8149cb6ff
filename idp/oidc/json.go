package oidc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"
	"unicode/utf8"
)

// maxDepth is how deep JSON of a provider may be nested.
const maxDepth = 16

// object is a JSON object as it was written: names in their exact case, each once, numbers unread.
type object map[string]any

var errJSON = errors.New("it is not one JSON object")

// readObject reads what a provider sent. Two readers of a repeated name could take different ones for true, so there may be none.
func readObject(raw []byte) (object, error) {
	if !utf8.Valid(raw) {
		return nil, errJSON
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	v, err := readValue(dec, 0)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: something follows it", errJSON)
	}
	o, ok := v.(object)
	if !ok {
		return nil, errJSON
	}
	return o, nil
}

func readValue(dec *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("%w: it is nested too deep", errJSON)
	}
	t, err := dec.Token()
	if err != nil {
		return nil, errJSON
	}
	switch t {
	case json.Delim('{'):
		o := object{}
		for dec.More() {
			name, err := dec.Token()
			if err != nil {
				return nil, errJSON
			}
			key, ok := name.(string)
			if _, twice := o[key]; twice || !ok {
				return nil, fmt.Errorf("%w: a name is there twice", errJSON)
			}
			if o[key], err = readValue(dec, depth+1); err != nil {
				return nil, err
			}
		}
		_, err = dec.Token()
		return o, closed(err)
	case json.Delim('['):
		list := []any{}
		for dec.More() {
			v, err := readValue(dec, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = dec.Token()
		return list, closed(err)
	}
	return t, nil
}

func closed(err error) error {
	if err != nil {
		return errJSON
	}
	return nil
}

// text returns a member that is a string where it is there. A null counts as absent.
func (o object) text(name string) (string, error) {
	switch v := o[name].(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	}
	return "", fmt.Errorf("%s is not a string", name)
}

// texts returns a member that is a string or an array of strings.
func (o object) texts(name string) ([]string, error) {
	switch v := o[name].(type) {
	case nil:
		return nil, nil
	case string:
		return []string{v}, nil
	case []any:
		out := make([]string, 0, len(v))
		for _, e := range v {
			s, ok := e.(string)
			if !ok {
				return nil, fmt.Errorf("%s holds something that is not a string", name)
			}
			out = append(out, s)
		}
		return out, nil
	}
	return nil, fmt.Errorf("%s is neither a string nor an array", name)
}

// truth returns a member that is true, or "true" as some providers write it.
func (o object) truth(name string) bool { return o[name] == true || o[name] == "true" }

// moment returns a NumericDate, which may have a fraction (RFC 7519 2). Zero: it is not there.
func (o object) moment(name string) (time.Time, error) {
	if o[name] == nil {
		return time.Time{}, nil
	}
	n, ok := o[name].(json.Number)
	if !ok {
		return time.Time{}, fmt.Errorf("%s is not a number", name)
	}
	f, err := strconv.ParseFloat(n.String(), 64)
	if err != nil || math.IsNaN(f) || f < 1 || f > 1<<36 {
		return time.Time{}, fmt.Errorf("%s is not a time", name)
	}
	return time.Unix(int64(f), 0), nil
}
