package client

import "testing"

// TestAcceptance: which tokens open a site, by what the site says and by what it leaves out.
func TestAcceptance(t *testing.T) {
	t.Parallel()
	const origin = "https://wiki.example.com"
	shop, stranger := &Client{ID: "shop"}, &Client{ID: "self", Document: &Document{Registered: true}}
	site := func(change func(*Acceptance)) *Acceptance {
		a := &Acceptance{Origins: []string{origin}, Login: true}
		if change != nil {
			change(a)
		}
		return a
	}
	sites := map[string]*Acceptance{
		"login":          site(nil),
		"login, any":     site(func(a *Acceptance) { a.Any = true }),
		"login, openid":  site(func(a *Acceptance) { a.Scopes = []string{"openid"} }),
		"login, orders":  site(func(a *Acceptance) { a.Scopes = []string{"orders"} }),
		"login, clients": site(func(a *Acceptance) { a.Clients = []string{"shop", "self"} }),
		"login, other":   site(func(a *Acceptance) { a.Clients = []string{"other"} }),
		"audience":       site(func(a *Acceptance) { a.Audience = []string{"https://api.example.com"} }),
		"API":            site(func(a *Acceptance) { a.Login = false }),
		"API, orders":    site(func(a *Acceptance) { a.Login, a.Scopes = false, []string{"orders"} }),
		"without origin": {Login: true},
	}
	all := []string{"openid", "orders"}
	for _, tt := range []struct {
		name      string
		client    *Client
		scopes    []string
		resources []string
		opens     []string
	}{
		{"openid", shop, []string{"openid"}, nil, []string{"login, any", "login, openid", "login, clients", "API"}},
		{"everything", shop, all, nil, []string{"login, any", "login, openid", "login, orders", "login, clients", "API", "API, orders"}},
		{"a stranger, openid", stranger, []string{"openid"}, nil, []string{"login, any"}},
		{"a stranger, everything", stranger, all, nil, []string{"login, any", "login, orders", "API, orders"}},
		{
			"for the site", shop,
			[]string{"openid"},
			[]string{"HTTPS://wiki.example.com:443/"},
			[]string{"login", "login, any", "login, openid", "login, clients", "API"},
		},
		{"a stranger, for the site", stranger, []string{"openid"}, []string{origin}, []string{"login, any"}},
		{"for a part of the site", shop, all, []string{origin + "/a"}, nil},
		{"for the API", shop, all, []string{"https://api.example.com"}, []string{"audience"}},
		{"a stranger, for the API", stranger, all, []string{"https://api.example.com"}, []string{"audience"}},
		{"for another", shop, all, []string{"https://other.example.com"}, nil},
	} {
		want := map[string]bool{}
		for _, name := range tt.opens {
			want[name] = true
		}
		for name, a := range sites {
			if got := a.Opens(tt.client, tt.scopes, tt.resources); got != want[name] {
				t.Errorf("%s: the site %q opens: %t, want %t", tt.name, name, got, want[name])
			}
		}
	}
}
