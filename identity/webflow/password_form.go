package webflow

import (
	"errors"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// NewPasswordField is the input of a new password, with the rules of the policy. problem is a message key, "" for none.
func NewPasswordField(p *settings.PasswordPolicy, problem string) web.Field {
	return web.Field{
		Name: "password", Type: "password", Label: "password.new", Autocomplete: "new-password", Required: true,
		Problem: problem, Lines: passwordRules(p),
	}
}

// passwordRules are the rules of the policy for people.
func passwordRules(p *settings.PasswordPolicy) []web.Text {
	out := []web.Text{web.Say("password.rule.length", "min", p.MinLength, "max", min(p.MaxLength, person.MaxPassword))}
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
			out = append(out, web.Say(rule.key))
		}
	}
	return out
}

// PasswordProblem is the message key for a refused new password, or "" if the error is about something else.
func PasswordProblem(err error) string {
	invalid, policy := new(person.ValidationError), new(person.PolicyError)
	switch {
	case !errors.As(err, &invalid) || invalid.Field != "password":
		return ""
	case invalid.Problem == person.BreachedProblem:
		return "problem.password_breached"
	case invalid.Problem == person.CommonProblem:
		return "problem.password_common"
	case invalid.Problem == person.RepeatsProblem:
		return "problem.password_repeats"
	case errors.As(err, &policy) && len(policy.Broken) > 0:
		return brokenRules[policy.Broken[0]] // the page lists all of them
	}
	return "problem.password_rules"
}

// brokenRules are the messages for the rules of settings.PasswordPolicy.Check.
var brokenRules = map[string]string{
	"password.too_short": "problem.password_too_short", "password.too_long": "problem.password_too_long",
	"password.no_lower_case": "problem.password_no_lower_case",
	"password.no_upper_case": "problem.password_no_upper_case", "password.no_special": "problem.password_no_special",
}
