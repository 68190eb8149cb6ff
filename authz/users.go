package authz

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/apppassword"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/consent"
	"github.com/gatehouse-id/gatehouse/authz/grant"
	"github.com/gatehouse-id/gatehouse/authz/jsonresponse"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/rar"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/storage"
)

// usersPath is the prefix of the paths of handleUsers.
const usersPath = "/oauth/api/v1/users/"

// maxPathPart bounds the bytes of a part of such a path. Ids are shorter, and storage keys are bounded.
const maxPathPart = 256

// Item is a grant, session or consent of a person: the tokens of one sign-in at one client are one grant.
type Item struct {
	ID        string    `json:"id"`
	ClientID  string    `json:"client_id,omitempty"` // absent: a session, which is of no client
	Scope     string    `json:"scope,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at,omitzero"` // absent: it does not expire
	// AuthorizationDetails are those that the person has allowed. (RFC 9396)
	AuthorizationDetails jsonresponse.Written `json:"authorization_details,omitempty"`

	// Of app passwords: the name that the person gave, the sites, and when, where and from which address it was last used.
	Name        string    `json:"name,omitempty"`
	Sites       []string  `json:"sites,omitempty"`
	LastUsedAt  time.Time `json:"last_used_at,omitzero"`
	LastSite    string    `json:"last_site,omitempty"`
	LastAddress string    `json:"last_address,omitempty"`
}

// itemKind is a kind of items.
type itemKind struct {
	// list returns the items that the person has now.
	list func(s *Server, tx storage.Tx, p authn.Subject, now time.Time) ([]Item, error)
	// stored returns the ids of all that can be ended: the items of list, and others that do not count now and would count
	// again, such as those of a disabled client or provider, or of a group that the person has left.
	stored func(s *Server, tx storage.Tx, person string, now time.Time) ([]Item, error)
	// end ends one item.
	end func(s *Server, tx storage.Tx, person string, h *Item, now time.Time) error
	// event is that of an end.
	event audit.Type
}

// itemKinds are the last parts of the paths. (docs/decisions/introspection.md#what-a-person-holds)
var itemKinds = map[string]itemKind{
	"tokens": {(*Server).grantItems, (*Server).storedGrants, func(_ *Server, tx storage.Tx, person string, h *Item, _ time.Time) error {
		return token.DropGrant(tx, person, h.ClientID, h.ID)
	}, grant.EventRevoked},
	"sessions": {(*Server).sessionItems, (*Server).storedSessions, func(s *Server, tx storage.Tx, person string, h *Item, _ time.Time) error {
		return s.deps.Subjects.CloseSession(tx, person, h.ID)
	}, eventSessionEnded},
	"consents":      {(*Server).consentItems, (*Server).storedConsents, endConsent, eventConsentWithdrawn},
	"app_passwords": {(*Server).appPasswordItems, (*Server).storedAppPasswords, (*Server).endAppPassword, apppassword.EventRevoked},
}

// handleUsers serves GET and DELETE /oauth/api/v1/users/{id}/tokens, …/sessions, …/consents, …/app_passwords, and
// DELETE of one item below them, for API clients with the API persons.
// (docs/decisions/introspection.md#what-a-person-holds) Items have ended before the answer is written.
func (s *Server) handleUsers(w http.ResponseWriter, r *http.Request) error {
	asker, err := s.clients.AuthenticateAPI(r, "persons")
	if err != nil {
		return err
	}
	person, kind, item, err := usersParts(r.URL)
	if err != nil {
		return err
	}
	partition, err := s.partitionOf(r, asker)
	if err != nil {
		return err
	}
	h, known := itemKinds[kind]
	if !known {
		return oauth.NotFound()
	}
	if r.Method == http.MethodGet {
		if item != "" {
			return oauth.NotFound() // single items cannot be read
		}
		return s.writeItems(w, r, h, partition, person)
	}
	if err := s.endItems(r.Context(), h, partition, person, item, audit.Actor{ID: asker.ID, Origin: s.deps.Origin(r)}); err != nil {
		return err
	}
	s.visits.Wake() // clients hear of ended sessions
	jsonresponse.Headers(w.Header(), -1)
	w.Header().Del("Content-Type")
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// partitionOf returns the partition that a request of an API client is about. "": any.
func (s *Server) partitionOf(r *http.Request, asker *client.APIClient) (string, error) {
	if !s.cfg.Partitioned {
		return "", nil
	}
	partition, err := jsonapi.PartitionOf(r, asker.Partitions, false)
	if e := new(jsonapi.Error); errors.As(err, &e) {
		if e.Status == http.StatusForbidden {
			return "", &oauth.Error{Status: e.Status, Code: "access_denied", Description: e.Message}
		}
		return "", oauth.InvalidRequest(nil, e.Message)
	}
	return partition, err
}

// usersParts reads the path: a person, a kind and perhaps an item, each unescaped separately.
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

func (s *Server) writeItems(w http.ResponseWriter, r *http.Request, h itemKind, partition, person string) error {
	now := s.now()
	var items []Item
	err := s.view(r.Context(), func(tx storage.Tx) (err error) {
		items, err = s.listItems(tx, h, partition, person, now)
		return err
	})
	if err != nil {
		return err
	}
	s.json(w, r, http.StatusOK, struct {
		Items []Item `json:"items"`
	}{items})
	return nil
}

// holder returns a person of a partition ("": any), or a 404.
func (s *Server) holder(tx storage.Tx, partition, person string) (authn.Subject, error) {
	p, err := s.deps.Subjects.Get(tx, person)
	if errors.Is(err, storage.ErrNotFound) || err == nil && partition != "" && cmp.Or(p.Partition, audit.DefaultPartition) != partition {
		return p, oauth.NotFound()
	}
	return p, err
}

// listItems returns the items of a person of a partition ("": any), never nil, or a 404 when the person is unknown.
func (s *Server) listItems(tx storage.Tx, h itemKind, partition, person string, now time.Time) ([]Item, error) {
	p, err := s.holder(tx, partition, person)
	if err != nil {
		return nil, err
	}
	items, err := h.list(s, tx, p, now)
	if items == nil {
		items = []Item{}
	}
	return items, err
}

// endItems ends an item, or all items when it is empty, also those that do not count at this moment: a thief would get
// them back.
func (s *Server) endItems(ctx context.Context, h itemKind, partition, person, item string, by audit.Actor) error {
	e, err := s.deps.Events.New(h.event, by.Origin)
	if err != nil {
		return oauth.ServerError(err)
	}
	e = by.Fill(e, person, "")
	now := s.now()
	return s.update(ctx, func(tx storage.Tx) error {
		if _, err := s.holder(tx, partition, person); err != nil {
			return err
		}
		items, err := h.stored(s, tx, person, now)
		if err != nil {
			return err
		}
		e := e
		if item != "" {
			items = slices.DeleteFunc(items, func(i Item) bool { return i.ID != item })
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
			return nil // as requested
		}
		return s.deps.Events.Append(tx, e)
	})
}

// grantItems lists the grants of a person: each is the tokens of one sign-in at one client.
func (s *Server) grantItems(tx storage.Tx, p authn.Subject, now time.Time) (items []Item, err error) {
	live, err := s.tokens.LiveGrants(tx, p.ID, now)
	for _, g := range live {
		items = append(items, Item{
			ID: g.ID, ClientID: g.ClientID, Scope: strings.Join(g.Scope, " "), CreatedAt: toSeconds(g.CreatedAt), ExpiresAt: toSeconds(g.ExpiresAt),
			AuthorizationDetails: jsonresponse.Written(g.AuthorizationDetails),
		})
	}
	return items, err
}

func (s *Server) storedGrants(tx storage.Tx, person string, now time.Time) (items []Item, err error) {
	stored, err := s.tokens.StoredGrants(tx, person, now)
	for _, g := range stored {
		items = append(items, Item{ID: g.ID, ClientID: g.ClientID})
	}
	return items, err
}

func (s *Server) sessionItems(tx storage.Tx, p authn.Subject, now time.Time) (items []Item, err error) {
	live, err := s.deps.Subjects.Sessions(tx, p.ID, now)
	for _, si := range live {
		items = append(items, Item{ID: si.SessionID, CreatedAt: toSeconds(si.AuthTime), ExpiresAt: toSeconds(si.Ends)})
	}
	return items, err
}

func (s *Server) storedSessions(tx storage.Tx, person string, _ time.Time) ([]Item, error) {
	ids, err := s.deps.Subjects.StoredSessions(tx, person)
	return itemsOf(ids), err
}

// consentItems lists the consents of a person; a client has one at most, so its id is the client's.
func (s *Server) consentItems(tx storage.Tx, p authn.Subject, now time.Time) ([]Item, error) {
	return s.storedConsents(tx, p.ID, now)
}

func (s *Server) storedConsents(tx storage.Tx, person string, _ time.Time) (items []Item, err error) {
	for g, err := range consent.Of(tx, person) {
		if err != nil {
			return nil, err
		}
		items = append(items, Item{
			ID: g.ClientID, ClientID: g.ClientID, Scope: strings.Join(g.Scope, " "), CreatedAt: toSeconds(g.CreatedAt),
			AuthorizationDetails: jsonresponse.Written(rar.Join(g.Details)),
		})
	}
	return items, nil
}

func (s *Server) appPasswordItems(tx storage.Tx, p authn.Subject, now time.Time) (items []Item, err error) {
	live, err := s.personal.List(tx, p.ID, now)
	for i := range live {
		a := &live[i]
		items = append(items, Item{
			ID: a.ID, Scope: strings.Join(a.Scopes, " "), CreatedAt: toSeconds(a.Since), ExpiresAt: toSeconds(a.Until), Name: a.Name, Sites: a.Sites,
			LastUsedAt: toSeconds(a.Last), LastSite: a.LastSite, LastAddress: a.LastAddress,
		})
	}
	return items, err
}

func (s *Server) storedAppPasswords(tx storage.Tx, person string, _ time.Time) ([]Item, error) {
	ids, err := apppassword.Stored(tx, person)
	return itemsOf(ids), err
}

func (s *Server) endAppPassword(tx storage.Tx, person string, h *Item, _ time.Time) error {
	return s.personal.Drop(tx, person, h.ID)
}

func itemsOf(ids []string) []Item {
	items := make([]Item, len(ids))
	for i, id := range ids {
		items[i].ID = id
	}
	return items
}

// endConsent forgets a consent and ends the grants that followed.
func endConsent(s *Server, tx storage.Tx, person string, h *Item, now time.Time) error {
	if _, err := s.tokens.DropGrants(tx, person, h.ClientID, now); err != nil {
		return err
	}
	if err := consent.Forget(tx, person, h.ClientID); err != nil {
		return err
	}
	return s.tellUnlinked(tx, person, h.ClientID, now)
}

// toSeconds rounds a time for answers.
func toSeconds(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }
