package movein

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/strictjson"
)

// checkJSON says where a file is not JSON.
func checkJSON(raw []byte) error {
	if line, err := strictjson.Fault(raw); err != nil {
		return fmt.Errorf("line %d: the file is not JSON: %w", line, err)
	}
	return nil
}

// refuses notes that a client does not come because a member is of another type, if that is the error. at is its place
// in the file, from 0 on.
func (c *Clients) refuses(err error, id string, at int) bool {
	wrong := strictjson.WrongType(err)
	if wrong != "" {
		c.about("client "+cmp.Or(noBraces(id), strconv.Itoa(at+1)+" of the file"), "does not come: "+wrong)
	}
	return wrong != ""
}

// isNothing reports whether a value of JSON says no more than its absence.
func isNothing(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == ""
	case json.Number:
		return v == "0"
	case float64:
		return v == 0
	case int:
		return v == 0
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// unread returns the members of an object that say something and that are not read, sorted.
func unread(object map[string]any, read ...string) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if !slices.Contains(read, name) && !isNothing(object[name]) {
			out = append(out, noBraces(name))
		}
	}
	return out
}

// lacks notes what of a client does not come, in one line.
func (c *Clients) lacks(id string, names []string) {
	if len(names) > 0 {
		c.note(id, "does not come: "+strings.Join(names, ", "))
	}
}

// lacksAbout is lacks for another part of an export.
func (c *Clients) lacksAbout(part string, names []string) {
	if len(names) > 0 {
		c.about(part, "does not come: "+strings.Join(names, ", "))
	}
}

// objectOf returns the members of a JSON object.
func objectOf(raw json.RawMessage) map[string]any {
	out := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	_ = d.Decode(&out) //nolint:errcheck // the caller has read it already
	return out
}
