package policy

import (
	"strings"
	"testing"
	"time"
)

func TestWindow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ window, at, want string }{
		{"mon-fri 07:00-19:00 Europe/Amsterdam", "2026-11-23T06:00:00Z", "in"}, // Monday, 07:00 there
		{"mon-fri 07:00-19:00 Europe/Amsterdam", "2026-11-23T05:59:59Z", "out"},
		{"mon-fri 07:00-19:00 Europe/Amsterdam", "2026-11-23T17:59:59Z", "in"},
		{"mon-fri 07:00-19:00 Europe/Amsterdam", "2026-11-23T18:00:00Z", "out"},
		{"mon-fri 07:00-19:00 Europe/Amsterdam", "2026-11-22T12:00:00Z", "out"}, // Sunday
		{"mon-fri 07:00-19:00 Europe/Amsterdam", "2026-07-20T05:00:00Z", "in"},  // summer: two hours ahead of UTC
		{"sat,sun 00:00-24:00 UTC", "2026-11-22T23:59:59Z", "in"},
		{"sat,sun 00:00-24:00 UTC", "2026-11-23T00:00:00Z", "out"},
		{"07:00-19:00 Asia/Kolkata", "2026-11-22T01:30:00Z", "in"},
		{"fri-mon 08:00-09:00 UTC", "2026-11-22T08:30:00Z", "in"},
		{"fri-mon 08:00-09:00 UTC", "2026-11-24T08:30:00Z", "out"},
		{"MON 08:00-09:00 UTC", "2026-11-23T08:30:00Z", "in"},
		// A night belongs to the day on which it begins.
		{"fri 22:00-06:00 UTC", "2026-11-20T22:00:00Z", "in"},
		{"fri 22:00-06:00 UTC", "2026-11-21T05:59:59Z", "in"},
		{"fri 22:00-06:00 UTC", "2026-11-21T06:00:00Z", "out"},
		{"fri 22:00-06:00 UTC", "2026-11-20T05:00:00Z", "out"},
		{"sat 22:00-06:00 UTC", "2026-11-22T03:00:00Z", "in"},
		// Clocks go forward on 29 March, from 02:00 to 03:00: half past two does not happen.
		{"sun 02:00-03:00 Europe/Amsterdam", "2026-03-29T00:59:59Z", "out"},
		{"sun 02:00-03:00 Europe/Amsterdam", "2026-03-29T01:00:00Z", "out"},
		{"sun 01:00-03:30 Europe/Amsterdam", "2026-03-29T01:29:59Z", "in"},
		{"sun 01:00-03:30 Europe/Amsterdam", "2026-03-29T01:30:00Z", "out"},
		// And back on 25 October, from 03:00 to 02:00: half past two happens twice.
		{"sun 02:00-03:00 Europe/Amsterdam", "2026-10-25T00:30:00Z", "in"},
		{"sun 02:00-03:00 Europe/Amsterdam", "2026-10-25T01:30:00Z", "in"},
		{"sun 02:00-03:00 Europe/Amsterdam", "2026-10-25T02:00:00Z", "out"},
	} {
		w, err := parseWindow(c.window)
		if err != nil {
			t.Errorf("%s: %v", c.window, err)
			continue
		}
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		if got := map[bool]string{true: "in", false: "out"}[w.contains(at)]; got != c.want {
			t.Errorf("%s is %s %q, want %s", c.at, got, c.window, c.want)
		}
	}
}

func TestWindowErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                  "want days, hours and a time zone",
		"07:00-19:00":                       "want days, hours and a time zone",
		"mon-fri 19:00-07:00":               "want days, hours and a time zone",
		"mon 07:00-19:00 UTC x":             "want days, hours and a time zone",
		"mo 07:00-19:00 UTC":                "is not a range of days",
		"mon- 07:00-19:00 UTC":              "is not a range of days",
		"mon,,tue 07:00-19:00 UTC":          "is not a range of days",
		"mon 7:00-19:00 UTC":                "is not a time range",
		"mon 07:00 UTC":                     "is not a time range",
		"mon 07:00-25:00 UTC":               "is not a time range",
		"mon 07:00-19:60 UTC":               "is not a time range",
		"mon 07:00-07:00 UTC":               "is an empty time range",
		"mon 24:00-07:00 UTC":               "begins at 00:00",
		"mon 07:00-00:00 UTC":               "ends at 24:00",
		"mon 07:00-19:00 Europe/Amsterdamm": "is not a time zone",
		"mon 07:00-19:00 Local":             "is not a time zone",
		"mon 07:00-19:00 ../../etc/passwd":  "is not a time zone",
	} {
		if _, err := parseWindow(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
