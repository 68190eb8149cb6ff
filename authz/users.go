package authz

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"

	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/storage"
)

// usersPath is what the paths of handleUsers begin with.
const usersPath = "/oauth/api/v1/users/"

// maxPathPart bounds the bytes of a part of such a path: ids are shorter, and storage keys are bounded.
const maxPathPart = 256

// held is something that a person holds here.
type held struct {
	ID        string    `json:"id"`
	ClientID  string    `json:"client_id,omitempty"` // absent: a session, which is of no client
	Scope     string    `json:"scope,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at,omitzero"` // absent: it does not expire
}

// holding is a kind of things that persons hold.
type holding struct {
	// list returns what the person holds now.
	list func(s *Server, tx storage.Tx, p login.Subject, now time.Time) ([]held, error)
	// end ends one of it.
	end func(s *Server, tx storage.Tx, person string, h *held, now time.Time) error
	// event is what is recorded of an end.
	event event.Type
}

// holdings are the last parts of the paths. (docs/decisions.md, "What a person holds")
var holdings = map[string]holding{
	"tokens": {(*Server).grantsHeld, func(_ *Server, tx storage.Tx, person string, h *held, _ time.Time) error {
		return token.DropGrant(tx, person, h.ClientID, h.ID)
	}, eventGrantRevoked},
	"sessions": {(*Server).sessionsHeld, func(s *Server, tx storage.Tx, person string, h *held, _ time.Time) error {
		return s.deps.Subjects.CloseSession(tx, person, h.ID)
	}, eventSessionEnded},
	"consents": {(*Server).consentsHeld, endConsent, eventConsentWithdrawn},
}

// handleUsers serves GET and DELETE /oauth/api/v1/users/{id}/tokens, …/sessions, …/consents, and DELETE of one item below them, for API
// clients with the API persons. (docs/decisions.md, "What a person holds") What is deleted has ended when the answer is there.
func (s *Server) handleUsers(w http.ResponseWriter, r *http.Request) error {
	asker, err := s.clients.AuthenticateAPI(r, "persons")
	if err != nil {
		return err
	}
	person, kind, item, err := usersParts(r.URL)
	if err != nil {
		return err
	}
	h, known := holdings[kind]
	if !known {
		return oauth.NotFound()
	}
	if r.Method == http.MethodGet {
		if item != "" {
			return oauth.NotFound() // items have no page of their own
		}
		return s.listHeld(w, r, h, person)
	}
	if err := s.endHeld(r.Context(), h, person, item, asker, s.deps.Origin(r)); err != nil {
		return err
	}
	s.logouts.Wake() // clients hear of ended sessions
	apiHeaders(w)
	w.Header().Del("Content-Type")
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// usersParts reads the path: a person, a kind and perhaps an item, each of them unescaped for itself.
func usersParts(u *url.URL) (person, kind, item string, err error) {
	parts := strings.Split(strings.TrimPrefix(u.EscapedPath(), usersPath), "/")
	if len(parts) < 2 || len(parts) > 3 {
		return "", "", "", oauth.NotFound()
	}
	for i, p := range parts {
		if parts[i], err = url.PathUnescape(p); err != nil || parts[i] == "" || len(p) > maxPathPart || !client.IsText(parts[i]) {
			return "", "", "", oauth.NotFound()
		}
	}
	if len(parts) == 3 {
		item = parts[2]
	}
	return parts[0], parts[1], item, nil
}

func (s *Server) listHeld(w http.ResponseWriter, r *http.Request, h holding, person string) error {
	now := s.now()
	var items []held
	err := s.view(r.Context(), func(tx storage.Tx) (err error) {
		items, err = s.held(tx, h, person, now)
		return err
	})
	if err != nil {
		return err
	}
	s.json(w, r, http.StatusOK, struct {
		Items []held `json:"items"`
	}{items})
	return nil
}

// held returns what a person holds, never nil, or a 404 when there is no such person.
func (s *Server) held(tx storage.Tx, h holding, person string, now time.Time) ([]held, error) {
	p, err := s.deps.Subjects.Get(tx, person)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, oauth.NotFound()
	}
	if err != nil {
		return nil, err
	}
	items, err := h.list(s, tx, p, now)
	if items == nil {
		items = []held{}
	}
	return items, err
}

// endHeld ends an item, or all of them when it is empty.
func (s *Server) endHeld(ctx context.Context, h holding, person, item string, asker *client.APIClient, from event.Origin) error {
	e, err := s.deps.Events.New(h.event, from)
	if err != nil {
		return oauth.ServerError(err)
	}
	e.PersonID, e.Actor = person, asker.ID
	now := s.now()
	return s.update(ctx, func(tx storage.Tx) error {
		items, err := s.held(tx, h, person, now)
		if err != nil {
			return err
		}
		e := e
		if item != "" {
			items = slices.DeleteFunc(items, func(i held) bool { return i.ID != item })
			if len(items) == 0 {
				return oauth.NotFound()
			}
			e.ClientID = items[0].ClientID
		}
		for i := range items {
			if err := h.end(s, tx, person, &items[i], now); err != nil {
				return err
			}
		}
		if len(items) == 0 {
			return nil // what was wanted
		}
		return s.deps.Events.Append(tx, e)
	})
}

// grantsHeld lists the grants of a person: each is the tokens of one sign-in at one client.
func (s *Server) grantsHeld(tx storage.Tx, p login.Subject, now time.Time) (items []held, err error) {
	live, err := s.tokens.LiveGrants(tx, p.ID, now)
	for _, g := range live {
		items = append(items, held{
			ID: g.ID, ClientID: g.ClientID, Scope: strings.Join(g.Scope, " "), CreatedAt: toSeconds(g.CreatedAt), ExpiresAt: toSeconds(g.ExpiresAt),
		})
	}
	return items, err
}

func (s *Server) sessionsHeld(tx storage.Tx, p login.Subject, now time.Time) (items []held, err error) {
	live, err := s.deps.Subjects.Sessions(tx, p.ID, now)
	for _, si := range live {
		items = append(items, held{ID: si.SessionID, CreatedAt: toSeconds(si.AuthTime), ExpiresAt: toSeconds(si.Ends)})
	}
	return items, err
}

// consentsHeld lists the consents of a person; a client has one at most, so its id is the client's.
func (s *Server) consentsHeld(tx storage.Tx, p login.Subject, _ time.Time) (items []held, err error) {
	for e, err := range consents.Scan(tx, storage.Range{Prefix: storage.Prefix(p.ID)}) {
		if err != nil {
			return nil, err
		}
		client := storage.Parts(e.Key)[1]
		items = append(items, held{ID: client, ClientID: client, Scope: strings.Join(e.Value.Scope, " "), CreatedAt: toSeconds(e.Value.CreatedAt)})
	}
	return items, nil
}

// endConsent forgets a consent and ends every grant that came of it.
func endConsent(s *Server, tx storage.Tx, person string, h *held, now time.Time) error {
	if _, err := token.DropGrants(tx, person, h.ClientID); err != nil {
		return err
	}
	if err := consents.Delete(tx, storage.Key(person, h.ClientID)); err != nil {
		return err
	}
	return s.tellUnlinked(tx, person, h.ClientID, now)
}

// toSeconds is how times are told.
func toSeconds(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }
