package command

import (
	"fmt"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/caddymodule/client"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/options"
)

// clientCredentials is the answer of a client that was added: the only time that its secret is shown.
type clientCredentials struct {
	ID     string `json:"id"`
	Secret string `json:"secret,omitempty"`
	// Warnings say what is allowed and probably not meant.
	Warnings []string `json:"warnings,omitempty"`
}

func adminAddClient(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	var c client.Client
	if err := body(r, &c); err != nil {
		return nil, err
	}
	// A request holds no placeholders: they would read the server's own environment and files.
	res := options.NewVerbatimResolver()
	client := c.Resolve(res) // AddClient judges the whole, once it has a secret
	if err := res.Err(); err != nil {
		return nil, badRequest{err}
	}
	text, err := i.Authz.AddClient(r.Context(), *client, caller(r))
	if err != nil {
		return nil, err
	}
	added := clientCredentials{ID: client.ID, Secret: text}
	for _, s := range options.UnknownScopes(client.Scopes, i.Scopes) {
		added.Warnings = append(added.Warnings, fmt.Sprintf("the scope %q is not known: did you mean %q?", s.Name, s.Near))
	}
	return added, nil
}

// clientInfo is a client in the form of the configuration, without its secrets.
type clientInfo struct {
	client.Client

	// Whether it was added by command. The others are in the configuration.
	Stored    bool      `json:"stored"`
	CreatedAt time.Time `json:"created_at,omitzero"` // of those added by command
}

func adminListClients(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	list, err := i.Authz.ListClients(r.Context())
	if err != nil {
		return nil, err
	}
	out := make([]clientInfo, 0, len(list))
	for _, c := range list {
		out = append(out, clientInfo{client.Of(&c.Client), c.Stored, c.CreatedAt})
	}
	return out, nil
}
