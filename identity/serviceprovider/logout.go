package serviceprovider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/saml/samlidp"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	signOutPath  = "/sign-out" // where a browser ends up by default
	farewellLife = time.Hour   // how long service providers can be notified
	maxVisited   = 100         // live sessions that one LogoutRequest ends
)

// Leave returns the page to which a browser goes first when its session ends. It notifies the service providers that
// can be notified only by the browser, and leads to ret. Empty: there are none.
func (s *Service) Leave(q *webflow.Request, ret string) (string, error) {
	leave, err := s.leaving(q, nil)
	if err != nil || leave == nil {
		return "", err
	}
	return leave(ret)
}

// Ending is Leave for a session that a provider ends: it is called before the end, and returns a function, since ret is
// known only after it. The page loads the frames of clients too. nil: there is no one to notify.
func (s *Service) Ending(q *webflow.Request) (leave func(ret string) (string, error), err error) {
	if q.SignIn == nil {
		return nil, nil //nolint:nilnil // there is no one to notify
	}
	frames, err := s.deps.Person.Watcher().LogoutFrames(q.Context(), q.SignIn.Session.PersonID, q.SignIn.ID)
	if err != nil {
		return nil, err
	}
	return s.leaving(q, frames)
}

func (s *Service) leaving(q *webflow.Request, frames []string) (func(ret string) (string, error), error) {
	if q.SignIn == nil {
		return nil, nil //nolint:nilnil // there is no one to notify
	}
	list, err := s.byBrowser(q, q.SignIn.Session.PersonID, q.SignIn.ID, "")
	if err != nil || len(list)+len(frames) == 0 {
		return nil, err
	}
	browser, err := s.deps.Jar.Browser(q.W, q.Request, s.front.NewID)
	if err != nil {
		return nil, err
	}
	rec := farewellRecord{Steps: list, Frames: frames, Browser: secret.Hash(browser)}
	return func(ret string) (string, error) {
		rec.Return = ret
		return s.begin(q.Context(), rec)
	}, nil
}

// byBrowser returns the visits of a session to service providers that are notified by the browser: they take no
// LogoutRequest without it. except is the entity that knows already.
func (s *Service) byBrowser(q *webflow.Request, personID, id, except string) (list []farewellStep, err error) {
	var all []visitRecord
	err = s.deps.Store.View(q.Context(), func(tx storage.Tx) error {
		all = nil
		for e, err := range visits.Scan(tx, storage.Range{Prefix: storage.Prefix(personID, id)}) {
			if err != nil {
				return err
			}
			all = append(all, e.Value)
		}
		return nil
	})
	for _, v := range all {
		if m := s.byID(q.Settings, v.Provider); m != nil && v.Entity != except {
			if meta := m.source.Known(); meta != nil && meta.EntityID == v.Entity && meta.SOAPLogout() == "" && meta.ByBrowser() {
				list = append(list, farewellStep{Visit: v})
			}
		}
	}
	return list, err
}

// begin stores the notifications that a browser sends to service providers, and returns the page that sends them.
func (s *Service) begin(ctx context.Context, rec farewellRecord) (string, error) {
	name, err := secret.ID(s.deps.Random, nameBytes)
	if err != nil {
		return "", err
	}
	rec.ExpiresAt = s.now().Add(farewellLife)
	err = s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		return farewells.Create(tx, secret.Hash(name), rec, rec.ExpiresAt.Add(session.CollectAfter))
	})
	return leaveURL(name), err
}

// leaveURL returns the address of the page that notifies the service providers. more are further parameters and values.
func leaveURL(name string, more ...string) string {
	q := url.Values{"flow": {name}}
	for i := 0; i+1 < len(more); i += 2 {
		q.Set(more[i], more[i+1])
	}
	return leavePath + "?" + q.Encode()
}

// isMessenger reports whether a request comes from the browser that notifies the service providers. They know the name
// of the record, and must not read the message to another one.
func (s *Service) isMessenger(q *webflow.Request, rec farewellRecord) bool {
	token := s.deps.Jar.Get(q.Request, session.CookieSession)
	return s.deps.Jar.SameBrowser(q.Request, rec.Browser) || token != "" && slices.Contains(rec.Sessions, secret.Hash(token))
}

// showLeave serves GET /sso/leave?flow=…: the page that notifies every service provider in a frame. With to=<number> it
// notifies one of them, in a frame or in a tab; with end=1 it lists those that have not confirmed, and leads on.
func (s *Service) showLeave(q *webflow.Request) error {
	params := q.URL.Query()
	name, to, end := params.Get("flow"), -1, params.Has("end")
	if name == "" || len(name) > maxName {
		return q.Redirect(signOutPath)
	}
	if n, err := strconv.Atoi(params.Get("to")); err == nil {
		to = n
	}
	id, err := secret.ID(s.deps.Random, nameBytes)
	if err != nil {
		return err
	}
	id = "_" + id
	var rec farewellRecord
	found, stranger := false, false
	key, now := secret.Hash(name), s.now()
	err = s.deps.Store.Update(q.Context(), func(tx storage.Tx) (err error) {
		stranger = false
		if rec, found, err = farewells.Find(tx, key); err != nil || !found {
			return err
		}
		if found = rec.ExpiresAt.After(now); !found {
			return nil
		}
		if stranger = !s.isMessenger(q, rec); stranger {
			if rec.begun() {
				return nil
			}
			return farewells.Delete(tx, key)
		}
		switch {
		case end && (rec.Asker != "" || rec.done()):
			return farewells.Delete(tx, key)
		case to < 0 || to >= len(rec.Steps):
			return nil
		}
		rec.Steps[to].Request, rec.Steps[to].Done = id, false
		return farewells.Put(tx, key, rec, rec.ExpiresAt.Add(session.CollectAfter))
	})
	switch {
	case err != nil:
		return err
	case !found, stranger && rec.begun():
		return q.Redirect(signOutPath)
	case stranger, end && (rec.Asker != "" || rec.done()):
		return s.arrive(q, rec) // a stranger goes to the service provider that asked, which learns that the logout is partial
	case end:
		return s.remaining(q, name, rec)
	case to >= 0 && to < len(rec.Steps):
		return s.tell(q, name, id, to, rec.Steps[to].Visit)
	}
	view := web.SigningOut{End: leaveURL(name, "end", "1"), Frames: rec.Frames}
	view.Apps = s.apps(q, name, rec)
	s.deps.Pages.Render(q.W, q.Request, web.View{Template: "signing_out", Data: view})
	return nil
}

// apps returns the service providers that have not confirmed, each with the address that notifies it.
func (s *Service) apps(q *webflow.Request, name string, rec farewellRecord) (list []web.SigningOutApp) {
	for i, step := range rec.Steps {
		if m := s.visited(q, step.Visit); m != nil && !step.Done {
			list = append(list, web.SigningOutApp{Name: m.Name, URL: leaveURL(name, "to", strconv.Itoa(i))})
		}
	}
	return list
}

// visited returns the service provider of a visit. nil: it no longer exists.
func (s *Service) visited(q *webflow.Request, v visitRecord) *member {
	m := s.byID(q.Settings, v.Provider)
	if m == nil || m.source.Known() == nil || m.source.Known().EntityID != v.Entity {
		return nil
	}
	return m
}

// remaining shows the service providers that have not confirmed, with a link to notify each again.
func (s *Service) remaining(q *webflow.Request, name string, rec farewellRecord) error {
	view := web.SignedOut{Apps: s.apps(q, name, rec)}
	if rec.Return != signOutPath {
		view.Continue = rec.Return
	}
	s.deps.Pages.Render(q.W, q.Request, web.View{Template: "signed_out", Data: view})
	return nil
}

// tell takes the browser to a service provider with a LogoutRequest.
func (s *Service) tell(q *webflow.Request, name, id string, step int, v visitRecord) error {
	m := s.visited(q, v)
	if m == nil {
		return webflow.NotFound()
	}
	w, err := s.writer(q.Context())
	if err != nil {
		return err
	}
	next, err := w.LogoutRequest(m.source.Known(), id, name+"."+strconv.Itoa(step), nameOf(&v), v.Index)
	if err != nil {
		return err
	}
	if next == nil {
		return webflow.NotFound()
	}
	s.sendFramed(q, m, next)
	return nil
}

func nameOf(v *visitRecord) samlidp.NameID {
	return samlidp.NameID{Value: v.Name, Format: v.Format, Qualifier: v.Qualifier}
}

// arrive leads a browser to the service provider that asked for the sign-out, or to where the person wanted to go.
func (s *Service) arrive(q *webflow.Request, rec farewellRecord) error {
	if rec.Asker == "" {
		return q.LeaveTo(cmp.Or(rec.Return, signOutPath))
	}
	m, meta, err := s.byEntity(q.Context(), q.Settings, rec.Asker)
	switch {
	case err != nil:
		return s.failed(q, m, err)
	case m == nil:
		return q.Redirect(signOutPath)
	}
	return s.confirm(q, m, meta, rec)
}

// confirm answers the LogoutRequest of a service provider.
func (s *Service) confirm(q *webflow.Request, m *member, meta *samlidp.Metadata, rec farewellRecord) error {
	w, err := s.writer(q.Context())
	if err != nil {
		return err
	}
	code, detail := rec.status()
	next, err := w.LogoutResponse(meta, rec.AskerBinding, rec.AskerRequest, rec.AskerRelay, code, detail)
	if err != nil {
		return fmt.Errorf("answer a LogoutRequest: %w", err)
	}
	if next == nil {
		return q.Redirect(signOutPath)
	}
	s.send(q, m, next, true)
	return nil
}

// handleLogout serves GET and POST /sso/logout: a service provider asks for a sign-out, or answers ours.
func (s *Service) handleLogout(q *webflow.Request) error {
	in, err := s.receive(q)
	if err != nil {
		return err
	}
	if in.IsResponse {
		return s.confirmed(q, in)
	}
	m, meta, msg, err := s.readLogout(q, in)
	if err != nil {
		return err
	}
	rec, err := s.endFor(q, m, meta, msg)
	if err != nil {
		return s.badRequest(q, m.ID, err)
	}
	rec.AskerRelay, rec.AskerBinding = in.Relay, in.Binding
	if len(rec.Steps)+len(rec.Frames) == 0 {
		return s.confirm(q, m, meta, rec)
	}
	at, err := s.begin(q.Context(), rec)
	if err != nil {
		return err
	}
	return q.Redirect(at)
}

// verifiedLogout is a verified LogoutRequest. used marks it as used.
type verifiedLogout struct {
	*samlidp.Logout

	used func(tx storage.Tx) error
}

// readLogout verifies a LogoutRequest.
func (s *Service) readLogout(q *webflow.Request, in *samlidp.Incoming) (*member, *samlidp.Metadata, *verifiedLogout, error) {
	m, meta, err := s.byEntity(q.Context(), q.Settings, in.Issuer)
	if err != nil {
		return nil, nil, nil, s.failed(q, m, err)
	}
	if m == nil {
		return nil, nil, nil, s.unknown(q)
	}
	out := &verifiedLogout{used: func(storage.Tx) error { return errors.New("a LogoutRequest without an ID") }}
	want := samlidp.LogoutWant{
		Destination: s.deps.Issuer + logoutPath, Now: s.now,
		Once: func(_ context.Context, key string, until time.Time) error {
			out.used = func(tx storage.Tx) error { return s.deps.Once(tx, key, until) } // together with the end of the sessions, or not at all
			return nil
		},
	}
	if in.Binding == samlidp.SOAP {
		want.Destination = s.deps.Issuer + soapPath
	}
	out.Logout, err = meta.ReadLogout(q.Context(), in, want)
	if newer := m.source.Renew(q.Context(), meta, err); newer != nil {
		meta = newer
		out.Logout, err = meta.ReadLogout(q.Context(), in, want)
	}
	if err != nil {
		return nil, nil, nil, s.refuseLogout(q, m, meta, in, err)
	}
	return m, meta, out, nil
}

// refuseLogout answers a LogoutRequest that is refused: with a response if the service provider has signed it for us,
// otherwise with a page.
func (s *Service) refuseLogout(q *webflow.Request, m *member, meta *samlidp.Metadata, in *samlidp.Incoming, err error) error {
	refused := new(samlidp.RefusedRequest)
	if !errors.As(err, &refused) {
		return s.badRequest(q, m.ID, err)
	}
	s.front.Refuse(q, denial.Refusal{Reason: denial.ServiceProviderRequest, ClientID: m.ID}, err)
	w, err := s.writer(q.Context())
	if err != nil {
		return err
	}
	if in.Binding == samlidp.SOAP {
		return cmp.Or(s.answerSOAP(q, w, refused.ID, samlidp.Requester, ""), webflow.ErrAnswered)
	}
	next, err := w.LogoutResponse(meta, in.Binding, refused.ID, in.Relay, samlidp.Requester, "")
	switch {
	case err != nil:
		return err
	case next == nil:
		return s.badRequest(q, m.ID, refused)
	}
	s.send(q, m, next, true)
	return webflow.ErrAnswered
}

// confirmed reads the answer of a service provider to our LogoutRequest. The person is signed out here already. The
// page says so, in a hidden frame or in a tab, whatever the answer says and even if it is not genuine.
func (s *Service) confirmed(q *webflow.Request, in *samlidp.Incoming) error {
	name, number, _ := strings.Cut(in.Relay, ".")
	i, err := strconv.Atoi(number)
	if err != nil || name == "" || len(name) > maxName {
		return s.badRequest(q, "", &idp.Invalid{Reason: "the LogoutResponse belongs to no sign-out"})
	}
	key, now := secret.Hash(name), s.now()
	var rec farewellRecord
	err = s.deps.Store.View(q.Context(), func(tx storage.Tx) (err error) {
		rec, _, err = farewells.Find(tx, key)
		return err
	})
	if err != nil {
		return err
	}
	if i < 0 || i >= len(rec.Steps) || !rec.ExpiresAt.After(now) || rec.Steps[i].Request == "" || in.Issuer != rec.Steps[i].Visit.Entity {
		return s.badRequest(q, "", &idp.Invalid{Reason: "the LogoutResponse belongs to no sign-out"})
	}
	m, meta, err := s.byEntity(q.Context(), q.Settings, in.Issuer)
	switch {
	case err != nil:
		return s.failed(q, m, err)
	case m == nil:
		return s.unknown(q)
	}
	answered := rec.Steps[i].Request
	msg, err := meta.ReadLogout(q.Context(), in,
		samlidp.LogoutWant{Destination: s.deps.Issuer + logoutPath, Request: answered, Now: s.now, Once: noRequest})
	if err != nil && !errors.As(err, new(*idp.Invalid)) {
		return err
	}
	if err != nil || !msg.Success {
		s.deps.Log.Warn("a service provider has not confirmed a sign-out: the person can still be signed in there",
			zap.String("service_provider", m.ID), zap.NamedError("cause", err))
		return s.afterAnswer(q, name, rec)
	}
	err = s.deps.Store.Update(q.Context(), func(tx storage.Tx) (err error) {
		var found bool
		if rec, found, err = farewells.Find(tx, key); err != nil || !found || rec.Steps[i].Request != answered {
			return err
		}
		rec.Steps[i].Done = true
		return farewells.Put(tx, key, rec, rec.ExpiresAt.Add(session.CollectAfter))
	})
	if err != nil {
		return err
	}
	return s.afterAnswer(q, name, rec)
}

// afterAnswer shows the page after an answer. Only the browser that sends the notifications sees which are left.
func (s *Service) afterAnswer(q *webflow.Request, name string, rec farewellRecord) error {
	if rec.Asker != "" || !s.isMessenger(q, rec) {
		rec = farewellRecord{Return: signOutPath}
	}
	return s.remaining(q, name, rec)
}

// noRequest is Once where a LogoutResponse is expected: Once is called for a LogoutRequest only.
func noRequest(context.Context, string, time.Time) error {
	return &idp.Invalid{Reason: "the message is a LogoutRequest"}
}

// ending is a session that a LogoutRequest names, with the service providers that its browser notifies.
type ending struct {
	person, session string
	others          []farewellStep
	frames          []string // of the clients that the browser notifies
}

// endFor ends the sessions that a LogoutRequest names, and marks it as used, both or neither. The record has the other
// service providers that the browser notifies.
func (s *Service) endFor(q *webflow.Request, m *member, meta *samlidp.Metadata, msg *verifiedLogout) (rec farewellRecord, err error) {
	rec = farewellRecord{Asker: meta.EntityID, AskerRequest: msg.ID}
	list, left, err := s.namedSessions(q.Context(), meta.EntityID, msg)
	if err != nil {
		return rec, err
	}
	rec.Left = left
	for i := range list {
		if list[i].others, err = s.byBrowser(q, list[i].person, list[i].session, meta.EntityID); err != nil {
			return rec, err
		}
		if list[i].frames, err = s.deps.Person.Watcher().LogoutFrames(q.Context(), list[i].person, list[i].session); err != nil {
			return rec, err
		}
	}
	events, err := s.deps.Person.NewEvents(s.deps.Origin(q.Request), slices.Repeat([]audit.Type{eventSignedOut}, len(list))...)
	if err != nil {
		return rec, err
	}
	ended, now := 0, s.now()
	err = s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		ended, rec.Steps, rec.Sessions, rec.Frames = 0, nil, nil, nil
		if err := msg.used(tx); err != nil {
			return err
		}
		for i, f := range list {
			key, err := s.endSession(tx, m, meta.EntityID, f, events[i], now)
			if err != nil {
				return err
			}
			if key != "" {
				ended++
				rec.Steps, rec.Sessions, rec.Frames = append(rec.Steps, f.others...), append(rec.Sessions, key), append(rec.Frames, f.frames...)
			}
		}
		return nil
	})
	if err != nil {
		return rec, err
	}
	s.deps.Log.Info("signed out by a service provider", zap.String("service_provider", m.ID), zap.Int("sessions", ended))
	if left {
		s.deps.Log.Warn("a service provider has signed out a name with more sessions than one request ends: the others stay open",
			zap.String("service_provider", m.ID), zap.Int("sessions", ended))
	}
	return rec, nil
}

// namedSessions returns the live sessions that a LogoutRequest names. left says that there are more than one request
// ends. The names of sessions that have ended stay for long, and do not count: they would hide the live ones.
func (s *Service) namedSessions(ctx context.Context, entity string, msg *verifiedLogout) (list []ending, left bool, err error) {
	now, prefix := s.now(), storage.Prefix(secret.Hash(storage.Key(entity, msg.NameID.Value)))
	err = s.deps.Store.View(ctx, func(tx storage.Tx) error {
		list, left = nil, false
		for e, err := range visitors.Scan(tx, storage.Range{Prefix: prefix}) {
			if err != nil {
				return err
			}
			if len(msg.Sessions) > 0 && !slices.Contains(msg.Sessions, e.Value.Index) {
				continue
			}
			id := storage.Parts(e.Key)[1]
			rec, err := s.deps.Session.Live(tx, id, now)
			if errors.Is(err, storage.ErrNotFound) || err == nil && rec.PersonID != e.Value.Person {
				continue
			}
			if err != nil {
				return err
			}
			if left = len(list) == maxVisited; left {
				return nil
			}
			list = append(list, ending{person: e.Value.Person, session: id})
		}
		return nil
	})
	return list, left, err
}

// endSession ends a session that a service provider knows, and returns the hash of the cookie that opened it. Empty:
// it had ended.
func (s *Service) endSession(tx storage.Tx, m *member, entity string, f ending, e audit.Event, now time.Time) (key string, err error) {
	rec, err := s.deps.Session.Unended(tx, f.session, now)
	if errors.Is(err, storage.ErrNotFound) {
		return "", nil
	}
	if err != nil || rec.PersonID != f.person {
		return "", err
	}
	visit := storage.Key(f.person, f.session, secret.Hash(entity))
	v, found, err := visits.Find(tx, visit)
	if err != nil || !found {
		return "", err
	}
	if err := forgetVisit(tx, visit, f.session, v); err != nil { // it asked for this, and is not notified
		return "", err
	}
	if err := s.deps.Person.Watcher().TokensEnded(tx, f.person, f.session); err != nil {
		return "", err
	}
	if err := s.deps.Session.End(tx, f.session, rec); err != nil {
		return "", err
	}
	who, err := s.deps.Person.Get(tx, f.person)
	if err != nil {
		return "", err
	}
	e = audit.Actor{ID: f.person, Name: who.Username, Session: f.session}.Fill(e, f.person, m.Name)
	e.ClientID = m.ID
	return rec.Cookie, s.deps.Events.Append(tx, e)
}

func forgetVisit(tx storage.Tx, key, id string, v visitRecord) error {
	if err := visits.Delete(tx, key); err != nil {
		return err
	}
	return visitors.Delete(tx, visitorKey(v.Entity, v.Name, id))
}
