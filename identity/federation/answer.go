package federation

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"github.com/fxamacker/cbor/v2"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// exchange is a sign-in under way and the provider that it uses.
type exchange struct {
	Provider *Member
	// SignIn is the id of the sign-in that asked. Empty: the provider has answered without being asked, and Flow leads
	// to the account page.
	SignIn string
	Flow   webflow.FlowRecord
}

// chooseURL returns the address of the sign-in page that offers every way to sign in.
func (x *exchange) chooseURL() string { return webflow.FlowURL(x.SignIn) + "&choose=1" }

// Answer is the response of a provider in an exchange.
type Answer struct {
	exchange

	Name     string // of the flow: it gives access to the answer, in the browser that was sent to the provider
	Rec      providerFlowRecord
	Identity *idp.Identity   // verified. nil: not yet
	Known    *Registry       // nil as long as Identity is
	Settings *settings.Units // of the request
}

// Key is the key of the identity in person.Identities.
func (a *Answer) Key() string { return person.IdentityKey(a.Provider.ID, a.Identity) }

// key is the key of the flow in ProviderFlows.
func (a *Answer) key() string { return secret.Hash(a.Name) }

// Done returns the address to which the browser returns with a verified answer and its cookies.
func (a *Answer) Done() string {
	return "/sign-in/provider/done?" + url.Values{"flow": {a.Name}}.Encode()
}

// AnswerIn returns the verified answer that a request names, checked against the demand of its sign-in.
func (s *Service) AnswerIn(q *webflow.Request) (*Answer, error) {
	a := &Answer{Name: q.URL.Query().Get("flow"), Settings: q.Settings}
	key := a.key()
	var flowErr error
	now := s.deps.Now()
	err := s.deps.Store.View(q.Context(), func(tx storage.Tx) (err error) {
		flowErr = nil
		if a.Rec, _, err = ProviderFlows.Find(tx, key); err == nil && a.Rec.SignIn != "" {
			a.Flow, flowErr = s.deps.Front.ReadFlowIn(tx, q, a.Rec.SignIn, now)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if a.Rec.Identity == nil || !a.Rec.ExpiresAt.After(now) {
		return nil, expired()
	}
	if a.Known, err = s.Registry(q.Context(), q.Settings); err != nil {
		return nil, err
	}
	if !s.tracks(q.Request, a.Rec.Tracker) {
		return nil, forbidden("error.forbidden")
	}
	if a.Provider = a.Known.Get(a.Rec.Provider); a.Provider == nil { // switched off meanwhile
		return nil, forbidden("error.no_idp")
	}
	if err := s.openIdentity(a); err != nil {
		return nil, err
	}
	if a.Rec.SignIn == "" {
		a.Flow = webflow.FlowRecord{Demand: authn.Demand{MaxAge: -1, Return: "/sign-in"}} // which redirects to the default page
	} else {
		if flowErr != nil {
			return nil, flowErr
		}
		a.SignIn = a.Rec.SignIn
		if a.Known.Ways(a.Flow.Demand).Find(a.Provider.ID) == nil {
			return nil, forbidden("error.no_idp")
		}
	}
	if misfit := a.checkFit(); misfit != nil {
		s.refuseAnswer(q, a, denial.LevelTooLow, misfit)
		s.RecordFailure(q.Request, a.Flow.Demand.Client.ID, a.Provider.ID, "", a.Provider.Name+": "+misfit.Reason)
		led, err := s.instead(q, &a.exchange)
		if !led && err == nil {
			err = s.refuse(q, a.Flow, misfit)
		}
		return nil, cmp.Or(err, webflow.ErrAnswered)
	}
	return a, nil
}

// openIdentity unseals the identity of an answer.
func (s *Service) openIdentity(a *Answer) error {
	raw, err := s.Unseal("identity", a.key(), a.Rec.Identity)
	if err != nil {
		return err
	}
	a.Identity = new(idp.Identity)
	if err := cbor.Unmarshal(raw, a.Identity); err != nil {
		return err
	}
	a.Provider.settle(a.Identity)
	return nil
}

// settle is the one place that decides which details of an identity count, at a sign-in and later.
func (p *Provider) settle(id *idp.Identity) {
	p.settleEmail(id)
	for _, name := range slices.Concat(own, p.Excluded) {
		delete(id.Details, name)
	}
}

// settleEmail sets whether the address of an identity is verified: if the provider can vouch for it, or the operator
// does. An unverified address among the details is removed, and marked as unverified. A telephone number is removed if
// the provider says that it is unverified. Applications must not take either for the person's own.
// (docs/decisions/providers.md#attributes-of-a-provider)
func (p *Provider) settleEmail(id *idp.Identity) {
	email, verified := person.VerifiedEmail(id)
	switch {
	case !p.vouchesFor(email):
		id.Email, id.EmailVerified, verified = email, false, false
	case p.VerifiesEmail && email != "" && !id.EmailClaimed:
		id.Email, id.EmailVerified, verified = email, true, true
	}
	if shown := person.FirstValue(id.Details, "email"); shown != "" && !(verified && person.FoldEmail(shown) == person.FoldEmail(email)) {
		id.Email, id.EmailVerified = email, verified
		delete(id.Details, "email")
		id.Details["email_verified"] = []string{"false"}
	}
	if said, has := id.Details["phone_number_verified"]; has && !slices.Equal(said, []string{"true"}) {
		delete(id.Details, "phone_number")
	}
}

// vouchesFor reports whether the provider can vouch for an address: any, or one in its Domains.
func (p *Provider) vouchesFor(email string) bool {
	_, domain, _ := strings.Cut(email, "@")
	return len(p.Domains) == 0 || slices.Contains(p.Domains, strings.ToLower(domain))
}

// checkFit returns a refusal if the sign-in at the provider is too old, or too weak even with a step-up; nil if it
// fits. Not every provider does what it is asked.
func (a *Answer) checkFit() *authn.Refusal {
	at, d, began := a.Identity.AuthTime, a.Flow.Demand, a.Rec.CreatedAt
	const skew = providerSkew
	tooOld := isForced(d) && at.Add(skew).Before(began)
	switch {
	case !at.IsZero() && (tooOld || (d.MaxAge >= 0 && began.Sub(at) > d.MaxAge+skew)):
		return &authn.Refusal{Code: "login_required", Reason: "the identity provider has not asked the person again"}
	case max(a.Identity.Level, a.Known.Reach) < d.Level:
		return Unreachable(d)
	}
	return nil
}

// TakeAnswer uses up the answer of a provider, or returns ErrUsed.
func TakeAnswer(tx storage.Tx, a *Answer) error {
	key := a.key()
	rec, _, err := ProviderFlows.Find(tx, key)
	if err != nil {
		return err
	}
	if rec.Identity == nil {
		return ErrUsed
	}
	return ProviderFlows.Delete(tx, key)
}
