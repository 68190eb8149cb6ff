package inventory

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/gatehouse-id/gatehouse/admin/console/sites"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect/sitepath"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/coded"
)

// writePolicy returns a policy in the syntax of the Caddyfile, or "" for one that has more than this syntax.
func writePolicy(p *settings.Policy) string {
	raw, err := json.Marshal(p)
	read := new(policy.Policy)
	if err != nil || json.Unmarshal(raw, read) != nil {
		return ""
	}
	return read.WriteText()
}

// readPolicy reads a policy in the syntax of the Caddyfile. lines are those on which the rules begin, those of deny
// first. Its error is a *sites.Wrong.
func readPolicy(text string) (p settings.Policy, lines []int, err error) {
	read, lines, err := policy.ReadText(text, sitepath.CheckPublic)
	if wrong := new(policy.TextError); errors.As(err, &wrong) {
		return p, nil, &sites.Wrong{Line: wrong.Line, Reason: wrong.Problem, Cause: wrong}
	}
	if err != nil {
		return p, nil, err
	}
	isOfCaddyfile := coded.New("audit_caddyfile", "audit is for policies of the Caddyfile")
	for i, r := range slices.Concat(read.Deny, read.Allow) {
		if r.Audit != "" {
			return p, nil, &sites.Wrong{Line: lines[i], Reason: isOfCaddyfile.Error(), Cause: isOfCaddyfile}
		}
	}
	return settings.Policy{Deny: SettingsOf(read.Deny), Allow: SettingsOf(read.Allow), Public: read.Public}, lines, nil
}

// SettingsOf returns rules as the configuration API has them.
func SettingsOf(list []*policy.Rule) (out []settings.PolicyRule) {
	for _, r := range list {
		n := r.Need
		shown := settings.PolicyRule{
			Name: r.Name, When: slices.Clone(r.When), Message: r.Message,
			Need: settings.PolicyNeed{
				Groups: slices.Clone(n.Groups), Scopes: slices.Clone(n.Scopes), MaxAge: string(n.MaxAge), Persons: slices.Clone(n.Persons),
				Clients: slices.Clone(n.Clients), Providers: slices.Clone(n.Providers),
				DeviceBound: n.DeviceBound,
			},
		}
		if level, err := caddyfileutil.ParseCount(string(n.Level)); err == nil {
			shown.Need.Level = level
		}
		if level, err := caddyfileutil.ParseCount(string(n.Assurance)); err == nil {
			shown.Need.Assurance = level
		}
		for _, c := range n.Claims {
			shown.Need.Claims = append(shown.Need.Claims, settings.PolicyClaim{Name: c.Name, Values: slices.Clone(c.Values)})
		}
		if raw, err := json.Marshal(r.Match); err != nil || json.Unmarshal(raw, &shown.Match) != nil {
			shown.Match = nil
		}
		out = append(out, shown)
	}
	return out
}
