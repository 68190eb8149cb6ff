package settingspages

import (
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// difference is a value of a member, at any depth, before and after a change. nil: it is absent
type difference struct {
	path     string
	from, to any
}

// differences returns the values within a member that a change has touched, so a list of login methods, say, is not
// shown as two long JSON texts. Entries of lists are told apart by their ids or names.
func differences(path string, from, to any) []difference {
	if reflect.DeepEqual(from, to) || unset(from) && unset(to) && (from == nil || to == nil) {
		return nil
	}
	a, b, ok := parts(from), parts(to), true
	switch {
	case a == nil && b == nil:
		ok = false
	case a == nil:
		ok = empty(from)
	case b == nil:
		ok = empty(to)
	}
	if !ok {
		return []difference{{path, from, to}}
	}
	keys := maps.Clone(a)
	if keys == nil {
		keys = map[string]any{}
	}
	maps.Copy(keys, b)
	var out []difference
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		out = append(out, differences(path+key, a[key], b[key])...)
	}
	return out
}

// parts returns the members of an object, and the entries of a list of objects, by what they add to a path. nil: the
// value is shown as a whole
func parts(value any) map[string]any {
	out := map[string]any{}
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			out["."+name] = member
		}
	case []any:
		for i, entry := range v {
			object, ok := entry.(map[string]any)
			if !ok {
				return nil
			}
			id, _ := object["id"].(string)
			name, _ := object["name"].(string)
			key := "[" + cmp.Or(id, name, strconv.Itoa(i)) + "]"
			if _, taken := out[key]; taken {
				key = "[" + strconv.Itoa(i) + "]"
			}
			out[key] = entry
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// texts returns a list of texts. nil: it is something else
func texts(value any) (out []string) {
	list, _ := value.([]any)
	for _, entry := range list {
		text, ok := entry.(string)
		if !ok {
			return nil
		}
		out = append(out, text)
	}
	return out
}

// summaries returns what names each object of a list: its name and up to two other texts, or its id. nil: the value is
// something else
func summaries(value any) (out []string) {
	list, _ := value.([]any)
	for _, entry := range list {
		object, ok := entry.(map[string]any)
		if !ok {
			return nil
		}
		var words []string
		for _, key := range append([]string{"name"}, slices.Sorted(maps.Keys(object))...) {
			text, _ := object[key].(string)
			text = cmp.Or(text, strings.Join(texts(object[key]), ", "))
			if text != "" && key != "id" && !slices.Contains(words, text) && len(words) < 3 {
				words = append(words, text)
			}
		}
		id, _ := object["id"].(string)
		out = append(out, cmp.Or(strings.Join(words, " · "), id, "—"))
	}
	return out
}

// unset reports whether a value is what an absent member means.
func unset(value any) bool { return empty(value) || value == false || value == json.Number("0") }

// empty reports whether a value is absent or has no content.
func empty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}
