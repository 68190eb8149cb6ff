package csvfile_test

import (
	"encoding/csv"
	"errors"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/csvfile"
)

// TestNamesThatAreFormulas is the attack of a person whose name a spreadsheet computes when an administrator opens an
// export.
func TestNamesThatAreFormulas(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                          "",
		"Ann":                       "Ann",
		"ann@example.com":           "ann@example.com",
		"=1+1":                      "'=1+1",
		`=HYPERLINK("http://evil")`: `'=HYPERLINK("http://evil")`,
		"+31 6 1234":                "'+31 6 1234",
		"-2+3":                      "'-2+3",
		"@SUM(1)":                   "'@SUM(1)",
		"\t=1+1":                    "'\t=1+1",
		" =1+1":                     "' =1+1",
		"\u00a0=1+1":                "'\u00a0=1+1",
		"\r=1+1":                    "' =1+1",
		"\n=1+1":                    "' =1+1",
		"a\r\n=1+1":                 "a =1+1",
		"|cmd":                      "'|cmd",
		"%0A=1":                     "'%0A=1",
		"＝1+1":                      "'＝1+1",
		`a","=1+1`:                  `a","=1+1`,
		"2026-01-02T03:04:05.000Z":  "2026-01-02T03:04:05.000Z",
	} {
		var out strings.Builder
		s := csvfile.New(&out, "name", "mail")
		s.Row(text, "x")
		err := s.Flush()
		rows, readErr := csv.NewReader(strings.NewReader(out.String())).ReadAll()
		if err != nil || readErr != nil || len(rows) != 2 || len(rows[1]) != 2 || rows[1][0] != want {
			t.Errorf("%q = %q, %v, %v, want %q", text, out.String(), err, readErr, want)
		}
	}
}

// TestReaderWhoHasGone: an export to someone who has hung up ends with an error.
func TestReaderWhoHasGone(t *testing.T) {
	t.Parallel()
	s := csvfile.New(gone{}, "name")
	s.Row("ann")
	if err := s.Flush(); !errors.Is(err, errGone) {
		t.Errorf("Flush = %v, want %v", err, errGone)
	}
}

var errGone = errors.New("gone")

type gone struct{}

func (gone) Write([]byte) (int, error) { return 0, errGone }
