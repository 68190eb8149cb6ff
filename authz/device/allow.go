package device

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/authz/consent"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// question is a person who is asked about a request.
type question struct {
	id     string // of the visit
	visit  visitRecord
	rec    requestRecord
	client *client.Client
}

// HandleAllow serves GET and POST /device/allow, where a person who has entered a right code decides.
func (s *Service) HandleAllow(w http.ResponseWriter, r *http.Request) error {
	query, err := oauth.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return err
	}
	q, err := s.ask(r, query.Get(flowParam))
	if errors.Is(err, errLate) {
		s.deps.FailPage(w, r, oauth.InvalidRequest(err, "the request of the device has expired"), "error.expired", EnterPath)
		return nil
	}
	if err != nil {
		return err
	}
	if r.Method == http.MethodPost {
		return s.decide(w, r, q)
	}
	result, err := s.deps.Auth.Authenticate(w, r, s.demand(q))
	if err != nil {
		return s.notSignedIn(w, r, err)
	}
	account, now := "", s.now()
	err = s.view(r.Context(), func(tx storage.Tx) error {
		st, err := s.deps.SignedIn(tx, q.client.ID, result, now)
		account = st.Subject.Username
		return err
	})
	switch {
	case errors.As(err, new(*denial.GroupError)):
		s.deps.FailPage(w, r, err, "error.denied", EnterPath)
		return nil
	case errors.As(err, new(*authn.Refusal)): // the session has just ended: this asks to sign in
		web.Redirect(w, allowAt(q.id))
		return nil
	case err != nil:
		return err
	}
	here := allowAt(q.id)
	data := web.Device{
		Action: here, CSRF: s.deps.Pages.CSRF(s.jar.Get(r, cookie.KindBrowser), allowForm(q.id, result.Subject)), Account: account,
		Another: web.AnotherAccount(here), Code: showUserCode(q.rec.UserCode), Address: q.rec.Address, Time: q.rec.CreatedAt,
	}
	for _, name := range q.rec.Scope {
		data.Scopes = append(data.Scopes, web.ScopeLine{Name: name, Description: s.deps.Clients.Scope(name).Description})
	}
	data.Sites = s.deps.Clients.Opens(q.client, q.rec.Scope, q.rec.Resources)
	data.Details = s.deps.Clients.DescribeDetails(q.rec.AuthorizationDetails)
	s.deps.Pages.Render(w, r, web.View{Template: "device", Client: clientOf(q.client), Data: data})
	return nil
}

func allowAt(id string) string { return AllowPath + "?" + url.Values{flowParam: {id}}.Encode() }

// allowForm binds the form to its question and to the person who was asked.
func allowForm(id, subject string) string { return "device " + id + " " + subject }

func clientOf(c *client.Client) authn.Client {
	return authn.Client{ID: c.ID, Name: cmp.Or(c.Name, c.ID)}
}

// ask returns the question of a visit. errLate: it is unknown in this browser, or over.
func (s *Service) ask(r *http.Request, id string) (*question, error) {
	q, now := &question{id: id}, s.now()
	err := s.view(r.Context(), func(tx storage.Tx) (err error) {
		if q.visit, err = visits.Get(tx, id); err != nil {
			return err
		}
		q.rec, err = open(tx, q.visit.Request, now)
		return err
	})
	switch {
	case errors.Is(err, storage.ErrNotFound), errors.Is(err, storage.ErrTooLarge), errors.Is(err, errUnknown):
		return nil, errLate
	case err != nil:
		return nil, err
	case !q.visit.ExpiresAt.After(now) || !s.jar.SameBrowser(r, q.visit.Browser):
		return nil, errLate
	}
	oauth.Learn(r.Context(), q.rec.ClientID, "", "")
	if err := s.deps.Clients.RefreshProviders(r.Context()); err != nil {
		return nil, err
	}
	q.client, err = s.deps.Clients.Get(r.Context(), q.rec.ClientID)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, errLate
	}
	if err == nil {
		err = s.may(q.client, &q.rec, "")
	}
	return q, err
}

// may asks whether the client is still allowed what its device has asked for.
func (s *Service) may(c *client.Client, rec *requestRecord, provider string) error {
	return s.deps.Clients.May(c, clientstore.Permission{
		Grant: grantName, Scope: rec.Scope, Provider: provider, Resources: rec.Resources,
		Details: rec.AuthorizationDetails,
	})
}

// level is the authentication level that the request takes.
func (s *Service) level(rec *requestRecord) int {
	return max(s.deps.Clients.ScopeLevel(rec.Scope), s.deps.Clients.DetailsLevel(rec.AuthorizationDetails))
}

// wish returns the consent that the person gives to the device.
func (rec *requestRecord) wish() consent.Wish {
	return consent.Wish{Use: consent.ForResources(rec.Resources), Scope: rec.Scope, Details: rec.AuthorizationDetails}
}

// demand is the sign-in that can approve a request: of the level of its scopes, by a provider of the client, and
// recent.
func (s *Service) demand(q *question) authn.Demand {
	d := authn.Demand{
		Level: s.level(&q.rec), SecondFactor: q.client.SecondFactor, Assurance: s.deps.Clients.ScopeAssurance(q.rec.Scope), MaxAge: freshness,
		Providers: s.deps.Clients.Usable(q.client), Client: clientOf(q.client),
		Return: allowAt(q.id),
	}
	if limit := q.client.Lifetimes.Session; limit > 0 {
		d.MaxAge = min(d.MaxAge, limit)
	}
	d.MaxAge += max(0, s.now().Sub(q.visit.CreatedAt)) // what was fresh when the code was entered does for the question
	return d
}

// decide takes the answer of the person.
func (s *Service) decide(w http.ResponseWriter, r *http.Request, q *question) error {
	current, err := s.deps.Auth.Current(r)
	if err != nil {
		return oauth.StorageError(err)
	}
	subject := ""
	if current != nil {
		subject = current.Subject
	}
	if err := s.checkPost(r, q.id, subject); err != nil {
		return s.refuseForm(w, r, err)
	}
	d := s.demand(q)
	d.Passive = true
	result, err := s.deps.Auth.Authenticate(w, r, d)
	if errors.As(err, new(*authn.Refusal)) || err == nil && result.Subject != subject {
		web.Redirect(w, allowAt(q.id)) // the person signs in again and is then asked again
		return nil
	}
	if err != nil {
		return oauth.StorageError(err)
	}
	a := approval{key: q.visit.Request, client: q.client, result: result, allow: r.PostForm.Get("decision") == "allow", visit: q.id}
	err = s.settle(r.Context(), &a, s.deps.Origin(r))
	switch {
	case errors.As(err, new(*authn.Refusal)):
		web.Redirect(w, allowAt(q.id))
	case errors.As(err, new(*denial.GroupError)):
		s.deps.FailPage(w, r, err, "error.denied", EnterPath)
	case errors.Is(err, errUnknown):
		s.deps.FailPage(w, r, oauth.InvalidRequest(errLate, "the request of the device has expired"), "error.expired", EnterPath)
	case err != nil:
		return err
	case a.allow:
		s.deps.Pages.Render(w, r, web.View{Template: "message", Client: clientOf(q.client), Data: web.Message{Key: "device_allowed"}})
	default:
		s.deps.Pages.Render(w, r, web.View{Template: "form", Client: clientOf(q.client), Data: web.Form{Key: "device_denied"}})
	}
	return nil
}

// checkPost accepts the form of the question, for this browser and person, without additional fields.
func (s *Service) checkPost(r *http.Request, id, subject string) error {
	if err := s.deps.Pages.CheckPost(r, s.jar.Get(r, cookie.KindBrowser), allowForm(id, subject)); err != nil {
		return err
	}
	decision := r.PostForm.Get("decision")
	if len(r.PostForm) != 2 || decision != "allow" && decision != "deny" {
		return &web.Forbidden{Status: http.StatusForbidden, Reason: "the form has a field that is not its own, or lacks one"}
	}
	return nil
}

// approval is the decision of a person about a request.
type approval struct {
	key    string // of the request
	client *client.Client
	result *authn.Result
	allow  bool
	visit  string // that is over then. Empty: none
}

// settle stores an answer. errUnknown: there is nothing to decide any more. A *authn.Refusal: the sign-in has ended.
func (s *Service) settle(ctx context.Context, a *approval, from audit.Origin) error {
	kind := eventDenied
	if a.allow {
		kind = eventApproved
	}
	e, err := s.deps.Events.New(kind, from)
	if err != nil {
		return oauth.ServerError(err)
	}
	e.PersonID, e.Actor, e.ClientID, e.SessionID = a.result.Subject, a.result.Subject, a.client.ID, a.result.SessionID
	now := s.now()
	return s.update(ctx, func(tx storage.Tx) error {
		rec, err := open(tx, a.key, now)
		if err != nil {
			return err
		}
		st, err := s.deps.SignedIn(tx, a.client.ID, a.result, now)
		if err != nil {
			return err
		}
		rec.Decision = denied
		if a.allow {
			if err := s.may(st.Client, &rec, a.result.Provider); err != nil {
				return err
			}
			if err := consent.Remember(tx, a.result.Subject, a.client.ID, rec.wish(), now); err != nil {
				return err
			}
			rec.Decision, rec.SignIn, rec.Epochs = approved, token.NewSignIn(a.result), st.Epochs
		}
		if a.visit != "" {
			if err := visits.Delete(tx, a.visit); err != nil {
				return err
			}
		}
		if err := put(tx, a.key, &rec); err != nil {
			return err
		}
		e := e
		e.AgentUser = st.Subject.Username
		return s.deps.Events.Append(tx, e)
	})
}
