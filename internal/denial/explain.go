package denial

import (
	"cmp"
	"fmt"
	"strings"
)

// Sentence says who was refused what, and why.
func (f *Refusal) Sentence() string {
	s := f.who() + " was refused " + f.what() + ": " + f.Why()
	if facts := f.facts(); facts != "" {
		s += " (" + facts + ")"
	}
	return s + "."
}

func (f *Refusal) who() string {
	switch {
	case f.Username != "":
		return f.Username + " (person " + f.PersonID + ")"
	case f.PersonID != "":
		return "person " + f.PersonID
	case f.ClientID != "" && (f.Where == OAuth || f.Where == API || f.Where == Site):
		return "client " + f.ClientID
	}
	return "someone who was not signed in"
}

func (f *Refusal) what() string {
	place := strings.TrimSpace(f.Method + " " + f.Site + f.Path)
	switch f.Where {
	case SignIn:
		place = "the sign-in" + by(" by ", f.By) + by(" with provider ", f.Provider)
	case StepUp:
		place = "a stronger sign-in" + by(" by ", f.By)
	}
	if f.PersonID != "" || f.Where == SignIn || f.Where == StepUp {
		place += by(" for client ", f.ClientID)
	}
	return place
}

func by(word, value string) string {
	if value == "" {
		return ""
	}
	return word + value
}

// Why is the reason as a clause. It names the groups where a group is what is missing.
func (f *Refusal) Why() string {
	switch {
	case f.Reason != GroupMissing || len(f.WantedGroups) == 0:
		return f.Reason.why()
	case len(f.WantedGroups) == 1:
		return "needs the group " + f.WantedGroups[0] + "; has " + orNone(f.Groups)
	}
	return "needs one of the groups " + strings.Join(f.WantedGroups, ", ") + "; has " + orNone(f.Groups)
}

func orNone(names []string) string { return cmp.Or(strings.Join(names, ", "), "none") }

// facts returns the requirements of the request that the reason does not name, and how far they were met.
func (f *Refusal) facts() string {
	var out []string
	if scopes := strings.Join(f.WantedScopes, ", "); scopes != "" {
		switch f.Reason {
		case ScopeMissing:
			out = append(out, "needs "+scopes+"; has "+orNone(f.Scopes))
		case ScopeNotAllowed:
			out = append(out, "asked for "+scopes)
		}
	}
	if f.Reason == LevelTooLow || f.Reason == NoSecondFactor {
		out = append(out, fmt.Sprintf("needs level %d; has %d", f.WantedLevel, f.Level))
	}
	if f.RedirectHost != "" && f.Reason == RedirectURI {
		out = append(out, "its host is "+f.RedirectHost)
	}
	if f.RedirectURI != "" && f.Reason == RedirectURI {
		out = append(out, "sent: "+f.RedirectURI, "registered: "+orNone(f.Registered))
	}
	if f.Detail != "" && !strings.EqualFold(f.Detail, f.Reason.why()) {
		out = append(out, f.Detail)
	}
	return strings.Join(out, "; ")
}
