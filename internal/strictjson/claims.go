package strictjson

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Texts returns a member of an object that is a string or an array of strings, such as aud (RFC 7519 4.1.3). nil: it is
// not there.
func Texts(object map[string]any, name string) ([]string, error) {
	switch v := object[name].(type) {
	case nil:
		return nil, nil
	case string:
		return []string{v}, nil
	case []any:
		out := make([]string, 0, len(v))
		for _, one := range v {
			s, ok := one.(string)
			if !ok {
				return nil, fmt.Errorf("%s holds something that is not a string", name)
			}
			out = append(out, s)
		}
		return out, nil
	}
	return nil, fmt.Errorf("%s is neither a string nor an array", name)
}

// Moment returns a NumericDate, which may have a fraction (RFC 7519 2). Zero: it is not there.
func Moment(object map[string]any, name string) (time.Time, error) {
	if object[name] == nil {
		return time.Time{}, nil
	}
	n, ok := object[name].(json.Number)
	if !ok {
		return time.Time{}, fmt.Errorf("%s is not a number", name)
	}
	f, err := strconv.ParseFloat(n.String(), 64)
	if err != nil || math.IsNaN(f) || f < 1 || f > 1<<36 {
		return time.Time{}, fmt.Errorf("%s is not a time", name)
	}
	return time.Unix(int64(f), 0), nil
}
