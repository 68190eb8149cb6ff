package settings

import (
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gatehouse-id/gatehouse/identity/settings/kind"
	"github.com/gatehouse-id/gatehouse/internal/coded"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
)

const (
	maxProblems = 20
	maxMessage  = 4000 // characters of a message, as the pages take it
)

// checker collects what is wrong, with its path.
type checker struct {
	problems []jsonapi.Problem
	// stored are the invalid texts that are there already, which hinder no other change: those of the Caddyfile, and
	// names of attributes that a provider of the Caddyfile no longer gives.
	stored map[flaw]bool
	// flaws are the invalid texts of this check.
	flaws []flaw
}

// flaw is an invalid text and its place, whatever its number in an array is.
type flaw struct{ path, text, problem string }

func (c *checker) add(path string, wrong error) {
	if len(c.problems) < maxProblems {
		c.problems = append(c.problems, jsonapi.ProblemAt(path, wrong))
	}
}

var indexes = regexp.MustCompile(`\[\d+\]`)

// addText is add for an invalid text.
func (c *checker) addText(path, text string, wrong error) {
	f := flaw{indexes.ReplaceAllString(path, "[]"), text, wrong.Error()}
	c.flaws = append(c.flaws, f)
	if !c.stored[f] {
		c.add(path, wrong)
	}
}

// flaws returns the invalid texts of the units.
func (u *Units) flaws() map[flaw]bool {
	c := &checker{}
	for _, un := range table {
		u.visit(un, visitor{value: c.value, name: c.name})
		if un.check != nil {
			un.check(u, c)
		}
	}
	out := make(map[flaw]bool, len(c.flaws))
	for _, f := range c.flaws {
		out[f] = true
	}
	return out
}

// validate returns what is wrong with the units, or nil. A text that was wrong with from in the same way is passed
// over.
func (u *Units) validate(from *Units) error {
	c := &checker{stored: from.flaws()}
	for _, un := range table {
		u.visit(un, visitor{value: c.value, name: c.name})
		if un.check != nil {
			un.check(u, c)
		}
	}
	if len(c.problems) > 0 {
		return jsonapi.Invalid(c.problems...)
	}
	return nil
}

// value checks a value by the tag of its field:
//
//	most,N[,kind...]  an array or object of at most N; kind is that of strings in an array, or of names in an object
//	int,MIN,MAX       a number
//	enum,A|B          one of these; an empty alternative allows the empty string
//	KIND[,N]          a string of a kind (kinds), of at most N characters. The empty string is always valid
func (c *checker) value(v reflect.Value, p place) {
	word, rest, _ := strings.Cut(p.tag, ",")
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		most, _, _ := strings.Cut(rest, ",")
		if limit, _ := strconv.Atoi(most); v.Len() > limit {
			c.add(p.at, coded.Errorf("entries", "max", "has more than %s entries", most))
		}
	case reflect.Int:
		least, most, _ := strings.Cut(rest, ",")
		low, _ := strconv.Atoi(least)
		high, _ := strconv.Atoi(most)
		if n := v.Int(); n < int64(low) || n > int64(high) {
			c.add(p.at, coded.Errorf("range", "from to", "must be from %s to %s", least, most))
		}
	case reflect.String:
		if word == "enum" {
			if !slices.Contains(strings.Split(rest, "|"), v.String()) {
				c.add(p.at, coded.Errorf("one_of", "list", "must be one of %s", strings.ReplaceAll(strings.TrimPrefix(rest, "|"), "|", ", ")))
			}
			return
		}
		c.text(v.String(), p.at, p.tag)
	}
}

// name checks a name that the caller chose.
func (c *checker) name(name string, p place) {
	if name == "" {
		c.add(strings.TrimSuffix(p.at, "."), coded.New("nameless", "has a member without a name"))
	}
	c.text(name, p.at, p.tag)
}

func (c *checker) text(s, path, tag string) {
	word, most, _ := strings.Cut(tag, ",")
	is := kind.All[word]
	limit := is.Most
	if n, err := strconv.Atoi(most); err == nil {
		limit = n
	}
	switch {
	case s == "" && word == "whitelisted":
		c.add(path, coded.New("empty", "is empty"))
	case s == "":
	case len(s) > 4*limit || utf8.RuneCountInString(s) > limit:
		c.addText(path, s, coded.Errorf("length", "max", "has more than %d characters", limit))
	default:
		if err := is.Check(s); err != nil {
			c.addText(path, s, err)
		}
	}
}

// shown shortens a name that the caller chose.
func shown(name string) string {
	if r := []rune(name); len(r) > 64 {
		return string(r[:64]) + "…"
	}
	return name
}
