package caddymodule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"slices"
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/registry"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/rest"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

func init() {
	caddy.RegisterModule(AdminAPI{})
}

// maxAdminBody is the size in bytes of a request to the admin API.
const maxAdminBody = 1 << 20

// AdminAPI adds /gatehouse/ to Caddy's admin endpoint, for the commands. Caddy guards it: it listens on a loopback address unless configured
// otherwise, and refuses foreign Host and Origin headers.
type AdminAPI struct{}

// CaddyModule implements caddy.Module.
func (AdminAPI) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.gatehouse", New: func() caddy.Module { return new(AdminAPI) }}
}

// adminCall answers one operation with what is written as JSON. nil: it has written the answer itself.
type adminCall func(i *instance, w http.ResponseWriter, r *http.Request) (any, error)

// adminHandler finds the app of the configuration that is active now, since after a failed reload one that was remembered would be wrong.
func adminHandler(call adminCall) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		found, err := caddy.ActiveContext().AppIfConfigured(appName)
		if err != nil {
			writeAdmin(w, http.StatusNotFound, adminError{"the running configuration has no gatehouse"})
			return
		}
		inst, err := found.(*App).enter(r.Context()) //nolint:forcetypeassert // registered under that name
		if err != nil {
			writeAdmin(w, http.StatusServiceUnavailable, adminError{reason(err)})
			return
		}
		defer inst.leave()
		if err := checkAdminRequest(r); err != nil {
			writeAdmin(w, http.StatusUnsupportedMediaType, adminError{err.Error()})
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxAdminBody)
		r = r.WithContext(event.WithCaller(r.Context(), commandCaller(r)))
		answer, err := call(inst, w, r)
		switch {
		case err != nil:
			writeAdmin(w, adminStatus(err), adminError{err.Error()})
		case answer != nil:
			writeAdmin(w, http.StatusOK, answer)
		}
	}
}

// checkAdminRequest demands JSON of whatever changes something: a page elsewhere cannot send that without asking first.
func checkAdminRequest(r *http.Request) error {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return errors.New("want Content-Type: application/json")
	}
	return nil
}

// adminError is the body of a refusal, as Caddy's own.
type adminError struct {
	Error string `json:"error"`
}

func writeAdmin(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func adminStatus(err error) int {
	switch {
	case errors.Is(err, identity.ErrUsernameTaken), errors.Is(err, identity.ErrGroupTaken), errors.Is(err, registry.ErrExists):
		return http.StatusConflict
	case errors.Is(err, identity.ErrNoPerson), errors.Is(err, identity.ErrNoActionToken), errors.Is(err, identity.ErrNoMethod), errors.Is(err, identity.ErrNoGroup), errors.Is(err, registry.ErrUnknown):
		return http.StatusNotFound
	case errors.Is(err, secret.ErrBusy), errors.Is(err, storage.ErrFull), errors.Is(err, storage.ErrUnavailable), errors.Is(err, storage.ErrCorrupt):
		return http.StatusServiceUnavailable
	}
	if e := new(oauth.Error); errors.As(err, &e) {
		return e.Status
	}
	if e := new(rest.Error); errors.As(err, &e) {
		return e.Status
	}
	return http.StatusBadRequest
}

// body reads the one JSON value of a request, strictly.
func body(r *http.Request, v any) error {
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return fmt.Errorf("read request: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("read request: more than one JSON value")
	}
	return nil
}

// commandCaller is who acts by the admin API, for the events: whoever may use it, from the very peer.
func commandCaller(r *http.Request) event.Caller {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil { // a socket of this machine
		host = event.Self.ClientIP
	}
	return event.Caller{ID: "admin", Name: "admin API", Origin: event.Origin{ClientIP: host, UserAgent: r.UserAgent()}}
}

// commandActor is the same for the operations of identity.
func commandActor(r *http.Request) identity.Actor {
	by := event.CallerOf(r.Context())
	return identity.Actor{ID: by.ID, Name: by.Name, Origin: by.Origin}
}

// done is the answer of what has nothing to say.
type done struct {
	Status string `json:"status"`
}

// checkAnswer is what the running server says about itself.
type checkAnswer struct {
	Issuer  string `json:"issuer"`
	Storage string `json:"storage"`          // ok, or what is wrong with it
	Free    uint64 `json:"free,omitempty"`   // bytes
	Clients int    `json:"clients"`          // those of the configuration and those added by command
	Place   string `json:"place"`            // where the records lie
	Error   string `json:"error,omitempty"`  // set when something is wrong
	Address string `json:"address,omitzero"` // what the issuer's address answered; filled in by the command
	// Certificates are those of the configuration, and when they end.
	Certificates []config.Expiry `json:"certificates,omitempty"`
	// Providers are the identity providers by their ids: ok, or what is wrong.
	Providers map[string]string `json:"providers,omitempty"`
	// Mail is what the mail server answered: ok, or what is wrong. Empty: none is configured.
	Mail string `json:"mail,omitempty"`
	// MailWaiting is how many e-mails are not handed over yet.
	MailWaiting int `json:"mail_waiting,omitempty"`
	// SMS and Push are the same of text messages and of prompts on devices.
	SMS         string `json:"sms,omitempty"`
	SMSWaiting  int    `json:"sms_waiting,omitempty"`
	Push        string `json:"push,omitempty"`
	PushWaiting int    `json:"push_waiting,omitempty"`
}

func adminCheck(i *instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	answer := checkAnswer{Issuer: i.issuer.String(), Storage: "ok", Place: i.core.place}
	if err := i.check(r.Context()); err != nil {
		answer.Storage, answer.Error = err.Error(), reason(err)
	}
	if i.core.metrics.stats != nil {
		answer.Free = i.core.metrics.stats().Free
	}
	list, err := i.authz.ListClients(r.Context())
	if err != nil {
		return nil, err
	}
	answer.Clients = len(list)
	if answer.Certificates, err = i.config.Expiries(r.Context()); err != nil {
		return nil, err
	}
	for _, e := range answer.Certificates {
		if e.Over && answer.Error == "" {
			answer.Error = "the certificate " + strconv.Quote(e.Name) + " has expired"
		}
	}
	answer.Providers = i.providers.check(r.Context())
	for _, id := range slices.Sorted(maps.Keys(answer.Providers)) {
		if said := answer.Providers[id]; said != "ok" && answer.Error == "" {
			answer.Error = "the identity provider " + strconv.Quote(id) + ": " + said
		}
	}
	return answer, i.checkSenders(r.Context(), &answer)
}

func adminAddPerson(i *instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	var p identity.NewPerson
	if err := body(r, &p); err != nil {
		return nil, err
	}
	return i.identity.AddPerson(r.Context(), p, commandActor(r))
}

// personsPage is one page of persons in the order of their usernames.
type personsPage struct {
	Items []identity.Person `json:"items"`
	Next  string            `json:"next,omitempty"` // the value of after for the next page
}

const maxPersons = 500 // of one page

func adminListPersons(i *instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	limit := 100
	if s := r.URL.Query().Get("limit"); s != "" {
		var err error
		if limit, err = strconv.Atoi(s); err != nil || limit < 1 || limit > maxPersons {
			return nil, fmt.Errorf("limit is not between 1 and %d", maxPersons)
		}
	}
	list, err := i.identity.ListPersons(r.Context(), r.URL.Query().Get("after"), limit)
	if err != nil {
		return nil, err
	}
	page := personsPage{Items: list}
	if list == nil {
		page.Items = []identity.Person{}
	}
	if len(list) == limit {
		last := list[len(list)-1]
		if page.Next, err = i.identity.InPartition(i.identity.PartitionOf(last), last.Username); err != nil {
			return nil, err
		}
	}
	return page, nil
}

func adminSetPassword(i *instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	var in struct {
		Person   string        `json:"person"`
		Password secret.String `json:"password"`
	}
	if err := body(r, &in); err != nil {
		return nil, err
	}
	return done{"changed"}, i.identity.SetPassword(r.Context(), in.Person, in.Password, commandActor(r))
}

func adminSetState(i *instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	var in struct {
		Person string         `json:"person"`
		State  identity.State `json:"state"`
	}
	if err := body(r, &in); err != nil {
		return nil, err
	}
	return done{string(in.State)}, i.identity.SetState(r.Context(), in.Person, in.State, commandActor(r))
}

func adminRemoveStepUp(i *instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	var in struct {
		Person string `json:"person"`
		Remove string `json:"remove"`
	}
	if err := body(r, &in); err != nil {
		return nil, err
	}
	return done{"removed"}, i.identity.RemoveStepUp(r.Context(), in.Person, in.Remove, commandActor(r))
}

// withdrawn is the answer of a consent that was withdrawn.
type withdrawn struct {
	Grants int `json:"grants"` // how many of the client's grants ended
}

func adminWithdrawConsent(i *instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	var in struct {
		Person string `json:"person"`
		Client string `json:"client"`
	}
	if err := body(r, &in); err != nil {
		return nil, err
	}
	person, err := i.identity.Person(r.Context(), in.Person)
	if err != nil {
		return nil, err
	}
	n, err := i.authz.WithdrawConsent(r.Context(), person.ID, in.Client)
	return withdrawn{n}, err
}

// addedClient is the answer of a client that was added: the only time that its secret is shown.
type addedClient struct {
	ID     string `json:"id"`
	Secret string `json:"secret,omitempty"`
}

func adminAddClient(i *instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	var c Client
	if err := body(r, &c); err != nil {
		return nil, err
	}
	// A request holds no placeholders: they would read the server's own environment and files.
	res := &resolver{verbatim: true}
	client := c.resolve(res) // AddClient judges the whole, once it has a secret
	if err := res.err(); err != nil {
		return nil, err
	}
	text, err := i.authz.AddClient(r.Context(), *client)
	if err != nil {
		return nil, err
	}
	return addedClient{client.ID, text}, nil
}

// adminBackup streams a copy of the store. A stream that breaks off is seen by the reader, since it has no end.
func adminBackup(i *instance, w http.ResponseWriter, r *http.Request) (any, error) {
	b, ok := i.core.Store.(storage.Backuper)
	if !ok {
		return nil, errors.New("this storage has its own way of making backups")
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "no-store")
	if err := b.Backup(r.Context(), w); err != nil {
		i.log.Error("backup failed", zap.Error(err))
		panic(http.ErrAbortHandler)
	}
	return nil, nil
}

// txStore lets a function that wants a store work in one transaction.
type txStore struct {
	storage.Store
	tx storage.Tx
}

func (t txStore) Update(_ context.Context, fn func(storage.Tx) error) error { return fn(t.tx) }
func (t txStore) View(_ context.Context, fn func(storage.Tx) error) error   { return fn(t.tx) }

// endOlder ends every token and session of a restored store: some may have been revoked after the backup was made.
func endOlder(ctx context.Context) func(storage.Tx) error {
	return func(tx storage.Tx) error {
		if err := token.EndEverything(ctx, txStore{tx: tx}); err != nil {
			return err
		}
		return identity.EndAllSessions(tx)
	}
}

var _ caddy.AdminRouter = (*AdminAPI)(nil)
