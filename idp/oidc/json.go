package oidc

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/strictjson"
)

// maxDepth is how deep JSON of a provider may be nested.
const maxDepth = 16

// object is a JSON object as it was written: names in their exact case, each once, numbers unread.
type object map[string]any

var errJSON = errors.New("it is not one JSON object")

// readObject reads JSON of a provider. A name that is there twice is refused, since two readers could take different
// ones for true.
func readObject(raw []byte) (object, error) {
	if err := strictjson.Check(raw, maxDepth); err != nil {
		return nil, fmt.Errorf("%w: it %w", errJSON, err)
	}
	v, err := strictjson.Value(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errJSON, err)
	}
	o, ok := v.(map[string]any)
	if !ok {
		return nil, errJSON
	}
	return o, nil
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

// truth tells whether a member is true. (OpenID Connect Core 5.1: email_verified is a boolean.) strings accepts "true"
// too.
func (o object) truth(name string, strings bool) bool {
	return o[name] == true || strings && o[name] == "true"
}

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
