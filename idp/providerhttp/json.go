package providerhttp

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/strictjson"
	"github.com/gatehouse-id/gatehouse/internal/webpage"
)

// maxDepth is the maximum nesting of a provider's JSON.
const maxDepth = 16

// Object is a JSON object as it was written: names in their exact case, each once, numbers unread.
type Object map[string]any

var errJSON = errors.New("it is not one JSON object")

// ReadObject reads JSON of a provider. A name that is there twice is refused, since two readers could take different
// ones for true.
func ReadObject(raw []byte) (Object, error) {
	if webpage.Is(raw) {
		return nil, fmt.Errorf("%w: it is an HTML page", errJSON)
	}
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

// Text returns a member that is a string where it is there. A null counts as absent.
func (o Object) Text(name string) (string, error) {
	switch v := o[name].(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	}
	return "", fmt.Errorf("%s is not a string", name)
}

// Texts returns a member that is a string or an array of strings.
func (o Object) Texts(name string) ([]string, error) { return strictjson.Texts(o, name) }

// Truth reports whether a member is true. (OpenID Connect Core 5.1: email_verified is a boolean.) strings accepts
// "true" too.
func (o Object) Truth(name string, strings bool) bool {
	return o[name] == true || strings && o[name] == "true"
}

// Moment returns a NumericDate, which may have a fraction (RFC 7519 2). Zero: it is not there.
func (o Object) Moment(name string) (time.Time, error) { return strictjson.Moment(o, name) }

// Until returns when a token of an answer of the token endpoint ends, by its expires_in. (RFC 6749 5.1) Zero: it is not
// known.
func (o Object) Until(now time.Time) time.Time {
	text, err := o.Text("expires_in") // some write a text
	if n, ok := o["expires_in"].(json.Number); ok {
		text, err = n.String(), nil
	}
	seconds, parseErr := strconv.ParseInt(text, 10, 64)
	if err != nil || parseErr != nil || seconds < 0 || seconds > 1<<32 {
		return time.Time{}
	}
	return now.Add(time.Duration(seconds) * time.Second)
}

// Flatten returns the values of claims by name. All values of an array are kept; members of an object get dotted names.
// A claim that itself has such a name takes precedence.
func (o Object) Flatten() map[string][]string {
	out := map[string][]string{}
	for name, v := range o {
		out[name] = append(out[name], scalars(v)...)
	}
	var nested func(prefix string, in Object)
	nested = func(prefix string, in Object) {
		for name, v := range in {
			at := prefix + "." + name
			if _, taken := o[at]; !taken {
				out[at] = append(out[at], scalars(v)...)
			}
			if inner, ok := v.(map[string]any); ok {
				nested(at, inner)
			}
		}
	}
	for name, v := range o {
		if inner, ok := v.(map[string]any); ok {
			nested(name, inner)
		}
	}
	return out
}

// scalars are the texts of a value. An object has none.
func scalars(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case json.Number:
		return []string{v.String()}
	case bool:
		return []string{map[bool]string{true: "true", false: "false"}[v]}
	case []any:
		var out []string
		for _, e := range v {
			if _, list := e.([]any); !list {
				out = append(out, scalars(e)...)
			}
		}
		return out
	}
	return nil
}
