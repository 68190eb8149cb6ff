package clientstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/cimd"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Clients with a metadata document. What a document says counts as long as it is remembered; what is stored of a client
// is for its tokens, which are looked at inside transactions.
// (docs/decisions/client-authentication.md#client-metadata-documents)

// documentScopes are the scopes that such a client can ask for besides those of the sites that are resources.
var documentScopes = []string{client.ScopeOpenID, "profile", "email"}

// documentKept is the time that a client stays stored after the last consent: longer than the life of anything that it
// gets.
const documentKept = 120 * 24 * time.Hour

// storedDocument is the JSON of a documentRecord.
type storedDocument struct {
	Client client.Client `json:"client"`
	Print  string        `json:"print"`
	Until  time.Time     `json:"until"`
}

// Documents reports whether clients can have metadata documents.
func (r *Registry) Documents() bool { return r.docs.On() }

// Remember stores a client that a person signs in to, if a metadata document describes it. If it has registered itself,
// it stores that it was used.
func (r *Registry) Remember(tx storage.Tx, c *client.Client, now time.Time) error {
	switch {
	case c.Document == nil:
		return nil
	case c.Document.Registered:
		return markUsed(tx, c.ID, now)
	}
	return documents.Put(tx, c.ID, documentRecord{Document: c.Document.JSON}, now.Add(documentKept))
}

// fromDocument returns a client by its metadata document. reg is what is stored of it. nil: nothing.
func (r *Registry) fromDocument(ctx context.Context, id string, reg *entry[client.Client]) (*entry[client.Client], error) {
	doc, err := r.docs.Find(ctx, id)
	if errors.Is(err, cimd.ErrUnknown) || (err != nil && reg != nil && r.docs.Refreshes(ctx, reg.until)) {
		return reg, nil
	}
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(storedDocument{doc.Client, doc.Print, doc.Until})
	if err != nil {
		return nil, fmt.Errorf("encode client: %w", err)
	}
	c := readyDocument{doc: doc, reg: r.described(doc, raw)}
	return c.reg, r.ready.keep(ctx, r.deps.Store, id, c)
}

// readyDocument is a client with a metadata document as requests need it.
type readyDocument struct {
	doc  *cimd.Document
	reg  *entry[client.Client]
	free *storage.Reading // that no client of this id was added by command, which would count in place of the document
}

// readyDocuments are those clients while their documents are remembered: a request needs no store for them.
type readyDocuments struct {
	mu sync.Mutex // guards of
	of map[string]readyDocument
}

// find returns a client that is ready, or nil.
func (d *readyDocuments) find(ctx context.Context, id string, docs *cimd.Documents) *entry[client.Client] {
	d.mu.Lock()
	have := d.of[id]
	d.mu.Unlock()
	if have.doc == nil || !have.free.Holds() || docs.Known(ctx, id) != have.doc {
		return nil
	}
	return have.reg
}

// keep keeps a client, where the store tells what changes and there is no other client of its id.
func (d *readyDocuments) keep(ctx context.Context, store storage.Store, id string, c readyDocument) error {
	tracker, ok := store.(storage.Tracker)
	if _, shared := store.(storage.Shared); shared || !ok { // no Reading holds where other processes write
		return nil
	}
	taken := false
	var err error
	c.free, err = tracker.Track(ctx, func(tx storage.Tx) (err error) {
		taken, err = clients.Has(tx, id)
		return err
	})
	if err != nil || taken || !c.free.Holds() {
		return oauth.StorageError(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of == nil || len(d.of) >= maxParsed {
		d.of = map[string]readyDocument{}
	}
	d.of[id] = c
	return nil
}

// described returns the client of a document as this registry has it. raw is what is stored of it.
func (r *Registry) described(doc *cimd.Document, raw []byte) *entry[client.Client] {
	c := r.complete(&doc.Client)
	c.Scopes, c.DefaultScopes, c.DetailTypes = r.asked, []string{client.ScopeOpenID}, r.StrangerDetails(c.DetailTypes)
	c.Document = &client.Document{
		Host: cimd.HostOf(c.ID), Trusted: r.docs.Trusts(c.ID), Print: doc.Print, JSON: raw,
		Schemes: r.docs.Schemes(),
	}
	return &entry[client.Client]{client: c, credential: r.checks.credential("client", c.ID, nil, nil), until: doc.Until}
}

// readDocument returns the stored client of a metadata document, or nil.
func (r *Registry) readDocument(tx storage.Tx, id string) (*entry[client.Client], error) {
	rec, found, err := documents.Find(tx, id)
	if err != nil || !found {
		return nil, err
	}
	return r.parseDocument(id, rec)
}

func (r *Registry) parseDocument(id string, rec documentRecord) (*entry[client.Client], error) {
	var in storedDocument
	if err := json.Unmarshal(rec.Document, &in); err != nil || in.Client.ID != id {
		return nil, fmt.Errorf("%w: client %q", storage.ErrCorrupt, id)
	}
	return r.described(&cimd.Document{Client: in.Client, Print: in.Print, Until: in.Until}, rec.Document), nil
}
