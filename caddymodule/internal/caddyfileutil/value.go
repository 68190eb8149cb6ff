package caddyfileutil

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Sensitive is a text that is stored in the configuration as it is and printed as "[redacted]".
type Sensitive string

// String returns "[redacted]".
func (Sensitive) String() string { return "[redacted]" }

// GoString returns "[redacted]".
func (Sensitive) GoString() string { return "[redacted]" }

// Duration is a text such as 30s, 15m, 12h or 30d, or a placeholder. A JSON number is nanoseconds, as everywhere in
// Caddy.
type Duration string

// UnmarshalJSON takes a string or a number of nanoseconds.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil {
		*d = Duration(s)
		return nil
	}
	var n int64
	if err := json.Unmarshal(b, &n); err != nil {
		return fmt.Errorf("a duration is a text such as 30s or a number of nanoseconds: %w", err)
	}
	*d = Duration(time.Duration(n).String())
	return nil
}

// Count is a whole number as text, or a placeholder. JSON numbers are understood.
type Count string

// UnmarshalJSON takes a string or a number.
func (c *Count) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil {
		*c = Count(s)
		return nil
	}
	var n json.Number
	if err := json.Unmarshal(b, &n); err != nil {
		return fmt.Errorf("want a whole number: %w", err)
	}
	*c = Count(n.String())
	return nil
}

// Quote returns a word as the Caddyfile has it: within quotation marks where it would be read as something else.
// Ends of lines become blanks.
func Quote(word string) string {
	word = strings.Join(strings.FieldsFunc(word, func(r rune) bool { return r == '\n' || r == '\r' }), " ")
	plain := word != "" && word != "{" && word != "}" && !strings.HasPrefix(word, "#") && !strings.HasPrefix(word, "<<") &&
		!strings.HasSuffix(word, "{") &&
		!strings.ContainsAny(word, " \t\"`\\")
	if plain {
		return word
	}
	if strings.Contains(word, `\`) && !strings.Contains(word, "`") {
		return "`" + word + "`" // within quotation marks \ stands for nothing but itself and \"
	}
	if strings.HasSuffix(word, `\`) {
		word += " "
	}
	return `"` + strings.ReplaceAll(word, `"`, `\"`) + `"`
}
