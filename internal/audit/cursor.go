package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Cursor says how far a search was read: the number of an event of each node, by its lane. 0: nothing of that node was.
// Its text is that number while there is one node, and otherwise such as 120,1:45. Numbers alone are of before there
// were lanes, and still good.
type Cursor []uint64

// maxLane bounds what a cursor from outside takes up.
const maxLane = 1 << 10

func (c Cursor) at(lane int) uint64 {
	if lane < len(c) {
		return c[lane]
	}
	return 0
}

func (c *Cursor) set(lane int, number uint64) {
	for len(*c) <= lane {
		*c = append(*c, 0)
	}
	(*c)[lane] = number
}

// ParseCursor reads the text of a cursor.
func ParseCursor(text string) (Cursor, error) {
	var c Cursor
	for part := range strings.SplitSeq(text, ",") {
		lane, number := 0, part
		if before, after, found := strings.Cut(part, ":"); found {
			n, err := strconv.ParseUint(before, 10, 16)
			if err != nil || n > maxLane {
				return nil, fmt.Errorf("%q is not the number of an event", text)
			}
			lane, number = int(n), after
		}
		n, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is not the number of an event", text)
		}
		if n > 0 {
			c.set(lane, n)
		}
	}
	return c, nil
}

// String is the inverse of ParseCursor.
func (c Cursor) String() string {
	var parts []string
	for lane, n := range c {
		switch {
		case n == 0:
		case lane == 0:
			parts = append(parts, strconv.FormatUint(n, 10))
		default:
			parts = append(parts, fmt.Sprintf("%d:%d", lane, n))
		}
	}
	if parts == nil {
		return "0"
	}
	return strings.Join(parts, ",")
}

// MarshalJSON implements json.Marshaler. The cursor of one node alone is a number, as it was before there were others.
func (c Cursor) MarshalJSON() ([]byte, error) {
	if slices.IndexFunc(c[min(1, len(c)):], func(n uint64) bool { return n > 0 }) < 0 {
		return []byte(c.String()), nil
	}
	return json.Marshal(c.String())
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *Cursor) UnmarshalJSON(b []byte) (err error) {
	*c, err = ParseCursor(string(bytes.Trim(b, `"`)))
	return err
}
