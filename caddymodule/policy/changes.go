package policy

import (
	"encoding/json"
	"time"
)

// Text returns all that the rules decide by, for comparison with another configuration.
func (p *Policy) Text() string {
	type part struct {
		Deny   bool
		Match  string
		Agents []string
		Robot  bool
		Need   Need
		When   []string
	}
	var parts []any
	for i, r := range p.rules() {
		parts = append(parts, part{i < len(p.Deny), r.raw, r.Agents, r.Robot, r.Need, r.When})
	}
	text, err := json.Marshal(append(parts, p.Public))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Changes returns when time alone can change what Judge says of a caller, after who.Now. Zero: never.
func (s Selection) Changes(who Facts) (at time.Time) {
	for _, rules := range [][]*Rule{s.deny, s.allow} {
		for _, rule := range rules {
			at = Sooner(at, rule.Need.Changes(who))
			for _, w := range rule.when {
				at = Sooner(at, w.changes(who.Now))
			}
		}
	}
	return at
}

// Changes is Changes of a Selection for one need: a sign-in gets too old, or what assures an identity ends.
func (n *Need) Changes(who Facts) (at time.Time) {
	if !who.signedIn() {
		return at
	}
	if _, assurance := n.Levels(who); assurance > 0 && who.Who.Person != nil {
		at = who.Who.Person.Assurance.Changes(who.Now)
	}
	if n.maxAge > 0 {
		at = Sooner(at, After(who.Now, who.Who.AuthTime.Add(n.maxAge)))
	}
	return at
}

// After returns a time that is to come, or zero.
func After(now, at time.Time) time.Time {
	if at.After(now) {
		return at
	}
	return time.Time{}
}

// Sooner returns the sooner one of two times that are not zero.
func Sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// changes returns a time after t before which contains says the same as at t. It is when the clocks on the wall show
// the next end of the window, on any day, or are changed before that.
func (w window) changes(t time.Time) time.Time {
	t = t.In(w.zone)
	_, change := t.ZoneBounds()
	at := change
	for _, minute := range []int{w.from % dayMinutes, w.to % dayMinutes, 0} {
		left := time.Duration(minute-t.Hour()*60-t.Minute())*time.Minute - time.Duration(t.Second())*time.Second - time.Duration(t.Nanosecond())
		if left <= 0 {
			left += 24 * time.Hour
		}
		at = Sooner(at, t.Add(left))
	}
	return at
}
