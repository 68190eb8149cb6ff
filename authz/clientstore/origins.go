package clientstore

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/storage"
)

// corsFresh is the time that the origins of clients that were added by command are cached.
const corsFresh = 10 * time.Second

// corsOrigins are the origins whose scripts can call the endpoints of public clients.
type corsOrigins struct {
	mu      sync.Mutex      // guards all below
	fixed   map[string]bool // of the configuration; made once
	stored  map[string]bool // of the clients added by command
	checked time.Time       // when stored was read
}

// AllowsOrigin reports whether scripts of an origin can call the endpoints of public clients.
func (r *Registry) AllowsOrigin(ctx context.Context, origin string) bool {
	now := r.now()
	o := &r.origins
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fixed == nil {
		o.fixed = map[string]bool{}
		for _, reg := range r.fixed {
			addOrigins(o.fixed, reg.client)
		}
	}
	everyPort, loopback := client.AnyPort(origin)
	allowed := func(of map[string]bool) bool { return of[origin] || (loopback && of[everyPort]) }
	if allowed(o.fixed) {
		return true
	}
	if o.stored == nil || now.Sub(o.checked) >= corsFresh || now.Before(o.checked) {
		stored := map[string]bool{}
		err := r.deps.Store.View(ctx, func(tx storage.Tx) error {
			for e, err := range clients.Scan(tx, storage.Range{}) {
				if err != nil {
					return err
				}
				c := new(client.Client)
				if json.Unmarshal(e.Value.Client, c) == nil {
					addOrigins(stored, c)
				}
			}
			return nil
		})
		if err != nil {
			return false // without the header the script reads nothing
		}
		o.stored, o.checked = stored, now
	}
	return allowed(o.stored) || r.docs.AllowsOrigin(origin, everyPort)
}

// addOrigins adds the origins of the client's scripts.
func addOrigins(to map[string]bool, c *client.Client) {
	if c.Disabled {
		return
	}
	for _, o := range c.ScriptOrigins() {
		to[o] = true
	}
}
