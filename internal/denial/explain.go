package denial

import (
	"cmp"
	"fmt"
	"strings"
)

// Sentence says who was refused what, and why.
func (f *Refusal) Sentence() string {
	s := f.who() + " was refused " + f.what() + ": " + f.Reason.Why()
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

// facts returns the requirements of the request, and how far they were met.
func (f *Refusal) facts() string {
	var out []string
	pair := func(name string, wanted, actual []string, show bool) {
		if len(wanted) > 0 && show {
			out = append(out, fmt.Sprintf("%s wanted: %s; there: %s", name, strings.Join(wanted, ", "), cmp.Or(strings.Join(actual, ", "), "none")))
		}
	}
	pair("groups", f.WantedGroups, f.Groups, f.Reason == GroupMissing)
	pair("scopes", f.WantedScopes, f.Scopes, f.Reason == ScopeMissing || f.Reason == ScopeNotAllowed)
	if f.Reason == LevelTooLow || f.Reason == NoSecondFactor {
		out = append(out, fmt.Sprintf("level wanted: %d; there: %d", f.WantedLevel, f.Level))
	}
	if f.RedirectHost != "" && f.Reason == RedirectURI {
		out = append(out, "its host is "+f.RedirectHost)
	}
	if f.RedirectURI != "" && f.Reason == RedirectURI {
		out = append(out, "sent: "+f.RedirectURI, "registered: "+cmp.Or(strings.Join(f.Registered, ", "), "none"))
	}
	if f.Detail != "" && !strings.EqualFold(f.Detail, f.Reason.Why()) {
		out = append(out, f.Detail)
	}
	return strings.Join(out, "; ")
}
