package front

import (
	"errors"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/page"
)

// NewPasswordField is where a new password is typed, with what the policy demands of it. problem is a message key, "" for none.
func NewPasswordField(p *config.PasswordPolicy, problem string) page.Field {
	return page.Field{
		Name: "password", Type: "password", Label: "password.new", Autocomplete: "new-password", Required: true, Problem: problem, Lines: passwordRules(p),
	}
}

// passwordRules says what the policy demands.
func passwordRules(p *config.PasswordPolicy) []page.Text {
	out := []page.Text{page.Say("password.rule.length", "min", p.MinLength, "max", min(p.MaxLength, person.MaxPassword))}
	for _, rule := range []struct {
		on  bool
		key string
	}{
		{p.LowerCaseCharRequired, "password.rule.lower"},
		{p.UpperCaseCharRequired, "password.rule.upper"},
		{p.SpecialCharRequired, "password.rule.special"},
		{p.BreachedPasswordBlocked, "password.rule.breached"},
	} {
		if rule.on {
			out = append(out, page.Say(rule.key))
		}
	}
	return out
}

// PasswordProblem is the message for why a new password is not taken, or "" where the error says something else.
func PasswordProblem(err error) string {
	invalid := new(person.ValidationError)
	switch {
	case !errors.As(err, &invalid) || invalid.Field != "password":
		return ""
	case invalid.Problem == person.BreachedProblem:
		return "problem.password_breached"
	}
	return "problem.password_rules"
}
