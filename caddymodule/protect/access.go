package protect

import (
	"context"
	"net/http"
	"net/url"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	refusals "github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/recheck"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// A person who is refused by the groups, needs or rules of a site can ask for access, and passes while an operator's
// grant lasts. (docs/decisions/gateway.md#requested-access)

const accessPath = ownPrefix + "access" // ?to=, a path of the site

// AccessState is the state of a request for access.
type AccessState string

// The states. None is that of a person who has not asked, or whose grant has ended.
const (
	AccessNone    AccessState = ""
	AccessOpen    AccessState = "open"
	AccessGranted AccessState = "granted"
	AccessRefused AccessState = "refused"
)

// Access keeps requests for access and what was granted.
type Access interface {
	// Holds reports whether a person has a grant for a site, and returns the basis of the answer.
	Holds(ctx context.Context, personID, site string) (bool, recheck.Basis, error)
	// Use is Holds for a request that counts as a use.
	Use(ctx context.Context, personID, site string) (bool, error)
	// State returns the state of a person's request for a site, with the operator's note.
	State(ctx context.Context, personID, site string) (state AccessState, note string, err error)
	// Ask stores the request of the actor. problem is the key of a message that says why not, or "".
	Ask(ctx context.Context, site, reason string, by audit.Actor) (problem string, err error)
}

// grantable are the verdicts that a grant overrules: never a deny rule, a level or the age of a sign-in.
var grantable = map[verdict]bool{notInGroup: true, needUnmet: true, noRule: true}

// findGrant reports whether a refused person has a grant, without counting a use. It returns another verdict if the
// grant is not enough.
func (p *Protect) findGrant(ctx context.Context, in Entrance, rules policy.Selection, c credential, who *token.Introspection, v verdict,
	d policy.Decision,
) (verdict, policy.Decision, bool, error) {
	if !p.asks || in.Access == nil || c.site == nil || who == nil || who.Person == nil || !grantable[v] {
		return v, d, false, nil
	}
	ok, _, err := in.Access.Holds(ctx, who.Subject, c.site.origin)
	if err != nil || !ok {
		return v, d, false, err
	}
	if rest, lacking := p.ignoringGroups(rules, who); rest != allowed {
		return rest, lacking, false, nil
	}
	return v, d, true, nil
}

// stillGranted reports whether the grant that let the request in still does so.
func (g *requestState) stillGranted(rules policy.Selection, s openBasis, v verdict) bool {
	if !s.granted || !grantable[v] {
		return false
	}
	v, _ = g.protect.ignoringGroups(rules, s.who)
	return v == allowed
}

// ignoringGroups returns the verdict for a browser as if its person had all required groups and claims. Requirements
// for the sign-in apply if any rule that concerns the request has them.
func (p *Protect) ignoringGroups(rules policy.Selection, who *token.Introspection) (verdict, policy.Decision) {
	switch v := p.examine(who, true); {
	case v == notInGroup && !p.admits(who.Person.Partition):
		return notInPartition, policy.Decision{}
	case v != allowed && v != notInGroup:
		return v, policy.Decision{}
	}
	now := p.now()
	facts := p.factsOf(who, true, now)
	if d := rules.Judge(facts); d.Outcome == policy.Denied && d.Rule != nil {
		return ruleDenied, d
	}
	for _, need := range []*policy.Need{&p.Need, rules.Strictest()} {
		level, assurance := need.Levels(facts)
		if who.Level < level {
			return tooLow, policy.Decision{Outcome: policy.StepUp, Need: need}
		}
		if who.Assurance(now) < assurance {
			return unassured, policy.Decision{Outcome: policy.Unassured, Need: need}
		}
		if need.DeviceBound && !who.DeviceBound {
			return unbound, policy.Decision{Outcome: policy.Unbound, Need: need}
		}
		if age := need.OldestSignIn(); age > 0 && now.Sub(who.AuthTime) >= age {
			return tooOld, policy.Decision{Outcome: policy.Renew, Need: need}
		}
	}
	return allowed, policy.Decision{}
}

// offerAccess adds the link for requesting access to the page of a refusal, or the state of the request.
func (p *Protect) offerAccess(g *requestState, in Entrance, s *site, f *refusal, out *web.Failure) {
	reason, who := f.reason, g.who
	if !p.asks || in.Access == nil || who == nil || who.Person == nil || reason != refusals.GroupMissing && reason != refusals.NeedUnmet &&
		reason != refusals.NoRule {
		return
	}
	state, note, err := in.Access.State(g.r.Context(), who.Subject, s.origin)
	if err != nil {
		return // the page then only says that access is refused
	}
	out.Note = note
	switch state {
	case AccessOpen:
		out.State = "access.state.open"
		return
	case AccessRefused:
		out.State = "access.state.refused"
	case AccessGranted, AccessNone:
	}
	to := "/"
	if isNavigation(g.r) {
		to = requestURI(g.r)
	}
	out.Ask = accessPath + "?to=" + url.QueryEscape(to)
}

// askAccess serves the page on which a person asks for access to the site.
func (p *Protect) askAccess(g *requestState, rec *credentials, in Entrance) {
	r, s := g.r, g.site
	c := siteCredential(s, rec)
	who, err := c.recheck(r.Context(), in.Authority)
	if err != nil {
		p.writeRefusal(g, cannotTell(err))
		return
	}
	g.who = who
	if !who.Active || who.Person == nil {
		if isNavigation(r) {
			p.signIn(g, rec, in.Authority, authz.SiteDemand{Return: s.origin + requestURI(r)})
			return
		}
		p.writeRefusal(g, p.refusalOf(g, inactive))
		return
	}
	to := wanted(original(r))
	binding, pages := rec.cookie(s.jar, cookie.KindBrowser), p.pages(in, s)
	if len(binding) < minBinding {
		if binding, err = p.browser(g, rec); err != nil {
			p.writeRefusal(g, cannotTell(err))
			return
		}
	}
	form := web.Form{
		Key: "access", Fill: []any{"site", s.origin[len(s.scheme)+len("://"):]}, Action: requestURI(r),
		CSRF: in.Pages.CSRF(binding, "access "+s.origin), Cancel: to, Onward: true,
	}
	status := http.StatusOK
	if r.Method == http.MethodPost {
		if err := pages.CheckPost(r, binding, "access "+s.origin); err != nil {
			p.writeRefusal(g, &refusal{
				reason: refusals.FormRefused, status: http.StatusForbidden, code: "invalid_request",
				text: "the form is not this browser's", page: "error.forbidden", cause: err,
			})
			return
		}
		by := audit.Actor{ID: who.Subject, Name: who.Person.Username, Origin: p.origin(r), Session: who.SessionID}
		form.Problem, err = in.Access.Ask(r.Context(), s.origin, r.PostForm.Get("reason"), by)
		switch {
		case err != nil:
			p.writeRefusal(g, cannotTell(err))
			return
		case form.Problem == "":
			web.Redirect(g.ResponseWriter, s.origin+requestURI(r))
			return
		}
		status = http.StatusUnprocessableEntity
	} else if !isNavigation(r) {
		p.writeRefusal(g, malformed("access is asked for on a page"))
		return
	}
	state, _, err := in.Access.State(r.Context(), who.Subject, s.origin)
	if err != nil {
		p.writeRefusal(g, cannotTell(err))
		return
	}
	switch state {
	case AccessOpen:
		form.Key, form.Action, form.Next, form.Cancel = "access.asked", "", to, ""
	case AccessGranted:
		form.Key, form.Action, form.Next, form.Cancel = "access.granted", "", to, ""
	case AccessRefused, AccessNone:
		form.Fields = web.Fields(form.Problem != "",
			web.Field{
				Name: "reason", Label: "access.reason", Required: true, Invalid: form.Problem != "", MinLength: 3, MaxLength: 300,
				Value: r.PostForm.Get("reason"),
			})
	}
	pages.Render(g.ResponseWriter, asSent(r), web.View{Template: "form", Status: status, Data: form})
}
