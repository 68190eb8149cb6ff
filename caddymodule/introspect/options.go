package introspect

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
	"github.com/gatehouse-id/gatehouse/internal/loopback"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// How we authenticate at the server.
const (
	authBasic = "basic"
	authPost  = "post"
	authKey   = "private_key_jwt"
)

const (
	defaultTimeout = 3 * time.Second
	maxTimeout     = 5 * time.Second
	longCache      = time.Minute // a longer cache is warned of
)

// Options are an authorization server elsewhere, as an operator writes it.
type Options struct {
	// The introspection endpoint. Required.
	URL string `json:"url"`
	// What the server calls this site or gateway. Required.
	Client string `json:"client"`
	// The secret of the client. Required, unless there is a key.
	Secret caddyfileutil.Sensitive `json:"secret,omitempty"`
	// How the client authenticates: basic, post or private_key_jwt. Default: basic with a secret, private_key_jwt with a
	// key.
	Auth string `json:"auth,omitempty"`
	// The file of the private key (PEM) that signs for private_key_jwt. Default: none.
	Key string `json:"key,omitempty"`
	// The kid under which the server knows the key. Default: its thumbprint.
	KeyID string `json:"key_id,omitempty"`
	// The issuer of the tokens, exactly as the server writes it. Default: any issuer that the server vouches for.
	Issuer string `json:"issuer,omitempty"`
	// The keys by which the server signs its answers (RFC 9701). With them, answers without a signature are refused.
	// Default: answers are JSON.
	JWKS string `json:"jwks,omitempty"`
	// The longest time that a revoked token may still pass. Default: none, every request asks.
	Cache caddyfileutil.Duration `json:"cache,omitempty"`
	// The longest time that a request waits for the server, at most 5s. Default: 3s.
	Timeout caddyfileutil.Duration `json:"timeout,omitempty"`
	// The claims that name the groups of a person, such as realm_access.roles. Default: groups.
	Groups []string `json:"groups,omitempty"`
	// Authentication levels by acr values. Default: those of Gatehouse.
	Levels map[string]caddyfileutil.Count `json:"levels,omitempty"`

	cfg config
}

// UnmarshalCaddyfile reads the option of protect; the dispenser stands on its word:
//
//	introspect <url> {
//		client    <id> [<secret>]
//		auth      basic|post|private_key_jwt
//		key       <file>
//		key_id    <text>
//		issuer    <url>
//		jwks      <url>
//		cache     <duration>
//		timeout   <duration>
//		groups    <claim>...
//		map_level <acr> <1 to 4>
//	}
func (o *Options) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	start := d.Token()
	if err := caddyfileutil.ReadName(d, &o.URL, checkEndpoint); err != nil {
		return err
	}
	err := caddyfileutil.ReadBlock(d, "introspect", &reference.Introspect, caddyfileutil.Subdirectives{
		"client":    o.readClient,
		"auth":      caddyfileutil.Value(&o.Auth, checkAuth),
		"key":       caddyfileutil.Value(&o.Key, nil),
		"key_id":    caddyfileutil.Value(&o.KeyID, nil),
		"issuer":    caddyfileutil.Value(&o.Issuer, caddyfileutil.CheckURI),
		"jwks":      caddyfileutil.Value(&o.JWKS, checkEndpoint),
		"cache":     caddyfileutil.Value(&o.Cache, caddyfileutil.CheckDuration),
		"timeout":   caddyfileutil.Value(&o.Timeout, checkTimeout),
		"groups":    caddyfileutil.Values(&o.Groups, nil),
		"map_level": o.readLevel,
	})
	if err != nil {
		return err
	}
	r := caddyfileutil.NewResolver(nil)
	if o.SetUp(r); r.Err() != nil {
		return caddyfileutil.At(start, fmt.Errorf("protect: %w", r.Err()))
	}
	return nil
}

func (o *Options) readClient(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) == 0 || len(args) > 2 || args[0] == "" || len(args) == 2 && args[1] == "" {
		return d.Err("client: want the id and the secret by which the server knows this gateway, as in: client ops {env.OPS_SECRET}")
	}
	o.Client = args[0]
	if len(args) == 2 {
		o.Secret = caddyfileutil.Sensitive(args[1])
	}
	return caddyfileutil.NoMore(d, "client")
}

func (o *Options) readLevel(d *caddyfile.Dispenser) error {
	args, err := caddyfileutil.ReadPair(d, "want what the server says (acr) and the level that it stands for, such as `map_level gold 3`")
	if err != nil {
		return err
	}
	if err := caddyfileutil.Check(d, "map_level", args[1], caddyfileutil.CheckLevel); err != nil {
		return err
	}
	if _, twice := o.Levels[args[0]]; twice {
		return d.Errf("map_level: %s is there twice", args[0])
	}
	if o.Levels == nil {
		o.Levels = map[string]caddyfileutil.Count{}
	}
	o.Levels[args[0]] = caddyfileutil.Count(args[1])
	return nil
}

// SetUp resolves and checks the options.
func (o *Options) SetUp(r *caddyfileutil.Resolver) {
	option := func(name string) string { return strings.TrimSpace("introspect " + name) }
	o.cfg = config{
		endpoint: r.Plain(option(""), o.URL, checkEndpoint), client: r.Plain(option("client"), o.Client, checkClient),
		auth:   r.Plain(option("auth"), o.Auth, checkAuth),
		issuer: r.Plain(option("issuer"), o.Issuer, caddyfileutil.CheckURI), jwks: r.Plain(option("jwks"), o.JWKS, checkEndpoint),
		cache: r.Duration(option("cache"), o.Cache), timeout: defaultTimeout, groups: r.List(option("groups"), o.Groups, nil),
		levels: map[string]int{},
	}
	c := &o.cfg
	if text, ok := r.Text(option("timeout"), string(o.Timeout), checkTimeout); ok {
		c.timeout = r.Duration(option("timeout"), caddyfileutil.Duration(text))
	}
	if len(c.groups) == 0 {
		c.groups = []string{"groups"}
	}
	for acr, level := range o.Levels {
		c.levels[r.Plain(option("map_level"), acr, nil)] = r.Count(option("map_level"), level, caddyfileutil.CheckLevel)
	}
	if text, ok := r.Text(option("client"), string(o.Secret), nil); ok {
		c.secret = secret.New(text)
	}
	kid := r.Plain(option("key_id"), o.KeyID, nil)
	if path, ok := r.Text(option("key"), o.Key, nil); ok && !r.Adapting() { // a Caddyfile may be adapted on another machine
		var err error
		if c.signer, err = readSigner(path, kid); err != nil {
			r.Lack(caddyfileutil.Fault{
				Option: "introspect key", Reason: fmt.Sprintf("introspect key: %v: requests with a token get 503", err),
				Fix: "put the key there, and run `caddy reload --force`",
			})
		}
	}
	if c.auth == "" && !caddyfileutil.HasPlaceholder(o.Auth) {
		if c.auth = authBasic; o.Key != "" {
			c.auth = authKey
		}
	}
	r.AddError(o.consistent())
}

// consistent checks rules between several options.
func (o *Options) consistent() error {
	switch key := o.cfg.auth == authKey; {
	case o.URL == "":
		return errors.New("introspect: name the introspection endpoint of the server, such as https://auth.example.com/oauth/introspect")
	case o.Client == "":
		return errors.New("introspect client: name the client by which the server knows this gateway, as in: client ops {env.OPS_SECRET}")
	case o.cfg.auth == "":
	case key && o.Key == "":
		return errors.New("introspect auth: private_key_jwt needs a key: name its file, as in: key /etc/gatehouse/ops.pem")
	case key && o.Secret != "":
		return errors.New("introspect client: private_key_jwt has no secret: remove either")
	case !key && o.Key != "":
		return fmt.Errorf("introspect key: auth %s uses the secret: remove either", o.cfg.auth)
	case !key && o.Secret == "":
		return errors.New("introspect client: the secret is missing, as in: client ops {env.OPS_SECRET}")
	}
	switch {
	case o.KeyID != "" && o.Key == "":
		return errors.New("introspect key_id: there is no key")
	case o.JWKS != "" && o.Issuer == "":
		return errors.New("introspect jwks: signed answers name their issuer: add issuer, as the server's metadata write it")
	}
	return nil
}

// Asks reports whether the endpoint is one of an issuer. It is for options that are set up.
func (o *Options) Asks(issuer string) bool {
	endpoint, err := url.Parse(o.cfg.endpoint)
	own, ownErr := url.Parse(issuer)
	return err == nil && ownErr == nil && endpoint.Host != "" && strings.EqualFold(endpoint.Host, own.Host) && endpoint.Scheme == own.Scheme
}

// Open returns the server that the options describe, after SetUp.
func (o *Options) Open(log *zap.Logger, now func() time.Time, random io.Reader) (*Server, error) {
	same, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	return newServer(o.cfg, sha256.Sum256(same), log, now, random)
}

// LongCache reports whether revoked tokens pass for longer than is usual.
func (o *Options) LongCache() bool { return o.cfg.cache > longCache }

// checkEndpoint accepts the address of an endpoint: https, and http on this machine alone.
func checkEndpoint(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "" || u.Opaque != "":
		return errors.New("want an address such as https://auth.example.com/oauth/introspect")
	case u.Scheme != "https" && u.Scheme != "http":
		return errors.New("want an address that begins with https://")
	case u.Scheme == "http" && !loopback.Is(u.Hostname()):
		return errors.New("http is for loopback hosts only (localhost, 127.0.0.1, [::1]), since tokens and the secret would be readable on the way: use https")
	case u.User != nil:
		return errors.New("the address holds a user or password: name the client with the option client")
	case strings.Contains(s, "#"):
		return errors.New("the address has a fragment")
	}
	return nil
}

func checkAuth(s string) error { return caddyfileutil.OneOf(authBasic, authPost, authKey)(s) }

func checkClient(s string) error {
	if len(s) > maxText || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return errors.New("want a client id of printable characters")
	}
	return nil
}

func checkTimeout(s string) error {
	if err := caddyfileutil.CheckDuration(s); err != nil {
		return err
	}
	if d, err := time.ParseDuration(s); err != nil || d > maxTimeout {
		return fmt.Errorf("%s is longer than %s, and a request waits for it", s, maxTimeout)
	}
	return nil
}
