package samltest

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Verdicts compare crewjam/saml and Gatehouse, which get the same messages. Where they differ there is a row in the
// table of docs/adr/0010-saml-library-0.6.md.
type Verdicts struct {
	mu    sync.Mutex // guards the others
	rows  map[string]bool
	count map[[2]bool]int // by whether the library and whether Gatehouse accepts
}

// Add notes what they say about a message. nil: it is accepted.
func (v *Verdicts) Add(name string, library, ours error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.rows == nil {
		v.rows, v.count = map[string]bool{}, map[[2]bool]int{}
	}
	v.count[[2]bool{library == nil, ours == nil}]++
	switch {
	case library == nil && ours != nil:
		v.rows[fmt.Sprintf("| %s | accepts | %s |", name, reason(ours))] = true
	case library != nil && ours == nil:
		v.rows[fmt.Sprintf("| %s | refuses | accepts |", name)] = true
	}
}

var (
	position = regexp.MustCompile(`^.*XML at byte \d+: `)
	context  = regexp.MustCompile(`^(idp: |metadata: |the [A-Za-z ]+: )+`)
)

// reason is the innermost reason of a refusal.
func reason(err error) string {
	if s := err.Error(); position.MatchString(s) {
		return position.ReplaceAllString(s, "at the door: ")
	}
	return context.ReplaceAllString(err.Error(), "")
}

// Unlike returns the rows that the table below a heading of a document lacks, and those that it has for no reason.
func (v *Verdicts) Unlike(document, heading string) (lacks, has []string, err error) {
	raw, err := os.ReadFile(document)
	if err != nil {
		return nil, nil, err
	}
	_, section, found := strings.Cut(string(raw), "\n"+heading+"\n")
	if !found {
		return nil, nil, fmt.Errorf("%s has no %q", document, heading)
	}
	section, _, _ = strings.Cut(section, "\n#")
	table := map[string]bool{}
	for line := range strings.Lines(section) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "| ") {
			table[line] = true
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, row := range slices.Sorted(maps.Keys(v.rows)) {
		if !table[row] {
			lacks = append(lacks, row)
		}
	}
	for _, row := range slices.Sorted(maps.Keys(table)) {
		if !v.rows[row] && !strings.HasPrefix(row, "| case |") {
			has = append(has, row)
		}
	}
	return lacks, has, nil
}

// String says how often they agree.
func (v *Verdicts) String() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := 0
	for _, n := range v.count {
		all += n
	}
	return fmt.Sprintf("%d messages: both accept %d, both refuse %d, the library alone accepts %d, Gatehouse alone accepts %d; %d rows", all,
		v.count[[2]bool{true, true}], v.count[[2]bool{false, false}], v.count[[2]bool{true, false}], v.count[[2]bool{false, true}], len(v.rows))
}
