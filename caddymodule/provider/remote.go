package provider

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/provider/attribute"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// maxProviderTimeout is the longest that a person waits for a provider.
const maxProviderTimeout = 5 * time.Second

// RemoteOptions are the options of identity providers that the browser is sent to.
type RemoteOptions struct {
	IDPOptions

	// Attributes of the provider that become user details. Default: none.
	Map []MappedAttribute `json:"map,omitempty"`
	// User details that are the same for all accounts of the provider. Default: none.
	Constants []ConstantDetail `json:"constants,omitempty"`
	// The authentication level of a sign-in there, where nothing else says it, 1 to 4. Default: 1.
	Level caddyfileutil.Count `json:"level,omitempty"`
	// What links an account at the provider to an existing person: email, a verified address. Default: none, the person
	// is asked.
	Couple string `json:"couple,omitempty"`
	// The attribute or claim that identifies a person in addition to the name that the provider gives them, so they are
	// found when that name changes. The provider must set it itself and never give its value to anybody else. Default:
	// none.
	IdentifyBy string `json:"identify_by,omitempty"`
	// E-mail domains whose addresses sign in there. Default: none.
	Domains []string `json:"domains,omitempty"`
	// A file with a PNG, JPEG or GIF picture of at most 64 KiB for the sign-in page. Default: a drawing.
	Icon string `json:"icon,omitempty"`
	// How long a person waits for the provider, at most 5s. Default: 5s.
	Timeout caddyfileutil.Duration `json:"timeout,omitempty"`

	remote   remote
	unusable error // why the provider cannot be made
}

// MappedAttribute says which attribute of the provider becomes which user detail.
type MappedAttribute struct {
	// The attribute or claim. Required.
	From string `json:"from"`
	// The user detail. Required.
	To string `json:"to"`
}

// ConstantDetail is a user detail that is the same for all accounts of a provider.
type ConstantDetail struct {
	// The user detail. Required.
	Detail string `json:"detail"`
	// Its value. Required.
	Value string `json:"value"`
}

// remote holds the resolved values of the options.
type remote struct {
	mapping    idp.Mapping
	identifyBy string
	level      int
	domains    []string
	icon       []byte
	timeout    time.Duration
}

// remoteIDP is an IDP that the browser is sent to. Its provider is made when the app starts, since it needs the running
// instance.
type remoteIDP interface {
	IDP
	// open makes the provider ready. It opens no connection.
	open(env idp.Env) (idp.Provider, error)
	// common are the options that such providers share.
	common() *RemoteOptions
	// path is the first part of the provider's addresses.
	path() string
}

func (o *RemoteOptions) common() *RemoteOptions { return o }

// Source implements IDP. There is no provider before the app starts.
func (o *RemoteOptions) Source() idp.Provider { return nil }

// with adds the words of these options to those of a provider.
func (o *RemoteOptions) with(own caddyfileutil.Subdirectives) caddyfileutil.Subdirectives {
	own["map"] = o.readMap
	own["constant"] = o.readConstant
	own["level"] = caddyfileutil.Value(&o.Level, caddyfileutil.CheckLevel)
	own["couple"] = caddyfileutil.Value(&o.Couple, checkCouple)
	own["identify_by"] = caddyfileutil.Value(&o.IdentifyBy, nil)
	own["domains"] = caddyfileutil.Values(&o.Domains, checkDomain)
	own["icon"] = caddyfileutil.Value(&o.Icon, nil)
	own["timeout"] = caddyfileutil.Value(&o.Timeout, checkProviderTimeout)
	return o.IDPOptions.with(own)
}

func (o *RemoteOptions) readMap(d *caddyfile.Dispenser) error {
	args, err := caddyfileutil.ReadPair(d, "want an attribute of the provider and the user detail that it becomes, such as `map mail email`")
	if err != nil {
		return err
	}
	m := MappedAttribute{args[0], args[1]}
	if slices.Contains(o.Map, m) {
		return d.Errf("map: %s %s is there twice", m.From, m.To)
	}
	o.Map = append(o.Map, m)
	return nil
}

func (o *RemoteOptions) readConstant(d *caddyfile.Dispenser) error {
	args, err := caddyfileutil.ReadPair(d, "want a user detail and its value, such as `constant branch north`")
	if err == nil {
		o.Constants = append(o.Constants, ConstantDetail{args[0], args[1]})
	}
	return err
}

// readSwitch reads on or off. The word alone is on.
func readSwitch(to *bool) caddyfileutil.Subdirective {
	return func(d *caddyfile.Dispenser) error {
		word := d.Val()
		*to = true
		if !d.NextArg() {
			return nil
		}
		if err := caddyfileutil.Check(d, word, d.Val(), caddyfileutil.OneOf("on", "off")); err != nil {
			return err
		}
		*to = d.Val() == "on"
		return caddyfileutil.NoMore(d, word)
	}
}

// readLevels reads a name and the authentication level that it stands for.
func readLevels(to *map[string]caddyfileutil.Count) caddyfileutil.Subdirective {
	return func(d *caddyfile.Dispenser) error {
		args, err := caddyfileutil.ReadPair(d,
			"want what the provider says and the level that it stands for, such as `map_level urn:example:strong 3`")
		if err != nil {
			return err
		}
		if err := caddyfileutil.Check(d, "map_level", args[1], caddyfileutil.CheckLevel); err != nil {
			return err
		}
		if _, ok := (*to)[args[0]]; ok {
			return d.Errf("map_level: %s is there twice", args[0])
		}
		if *to == nil {
			*to = map[string]caddyfileutil.Count{}
		}
		(*to)[args[0]] = caddyfileutil.Count(args[1])
		return nil
	}
}

// resolve returns the options' values. Files are read only when the configuration is loaded: a Caddyfile may be adapted
// on another machine.
// foreign reports whether a detail is the name of an attribute at providers of this kind.
func (o *RemoteOptions) resolve(r *caddyfileutil.Resolver, foreign attribute.Foreign) remote {
	o.doubtDetails(r, foreign)
	o.Name = r.Plain("name", o.Name, nil)
	o.assures(r)
	out := remote{
		level: r.Count("level", o.Level, caddyfileutil.CheckLevel), timeout: r.Duration("timeout", o.Timeout),
		identifyBy: r.Plain("identify_by", o.IdentifyBy, nil),
	}
	if s, ok := r.Text("timeout", string(o.Timeout), checkProviderTimeout); ok {
		out.timeout, _ = caddy.ParseDuration(s)
	}
	r.Plain("couple", o.Couple, checkCouple)
	for _, m := range o.Map {
		out.mapping.Attributes = append(out.mapping.Attributes, idp.Attribute{From: r.Plain("map", m.From, nil), To: r.Plain("map", m.To, nil)})
	}
	for _, c := range o.Constants {
		out.mapping.Constants = append(out.mapping.Constants,
			idp.Constant{Detail: r.Plain("constant", c.Detail, nil), Value: r.Plain("constant", c.Value, nil)})
	}
	for _, domain := range r.List("domains", o.Domains, checkDomain) {
		out.domains = append(out.domains, strings.ToLower(domain))
	}
	out.icon = caddyfileutil.ReadPicture(r, "icon", o.Icon)
	return out
}

// secretOf resolves a secret. Where it is known later, something stands in for it.
func secretOf(r *caddyfileutil.Resolver, option string, v caddyfileutil.Sensitive) secret.String {
	s, ok := r.Text(option, string(v), nil)
	if !ok && v != "" && r.Adapting() {
		s, ok = caddyfileutil.StandInSecret, true
	}
	if !ok {
		return secret.String{}
	}
	return secret.New(s)
}

// levels resolves what map_level says.
func levels(r *caddyfileutil.Resolver, of map[string]caddyfileutil.Count) map[string]int {
	if len(of) == 0 {
		return nil
	}
	out := map[string]int{}
	for name, level := range of {
		out[r.Plain("map_level", name, nil)] = r.Count("map_level", level, caddyfileutil.CheckLevel)
	}
	return out
}

// provision resolves the options when the configuration is loaded.
func (o *RemoteOptions) provision(build func(*caddyfileutil.Resolver)) error {
	r := caddyfileutil.NewResolver(caddy.NewReplacer())
	build(r)
	o.faults = r.Faults()
	return r.Err()
}

// without says that the provider cannot be made for want of a file.
func (o *RemoteOptions) without(r *caddyfileutil.Resolver, option, format string, args ...any) {
	o.unusable = fmt.Errorf(option+": "+format, args...)
	r.Lack(caddyfileutil.Fault{
		Watched: true, Option: option, Reason: "no one can sign in: " + o.unusable.Error(),
		Fix: "write the path of the file, from the directory that Caddy runs in, and run `caddy reload --force`",
	})
}

var checkCouple = caddyfileutil.OneOf("email")

var checkMigrate = caddyfileutil.OneOf("password")

func checkProviderTimeout(s string) error {
	d, err := caddy.ParseDuration(s)
	if err != nil || d < 100*time.Millisecond || d > maxProviderTimeout {
		return fmt.Errorf("%q is not a time of 100ms to %s: a person waits meanwhile", s, maxProviderTimeout)
	}
	return nil
}

func checkDomain(s string) error {
	if s == "" || len(s) > 253 || !strings.Contains(s, ".") ||
		strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789.-") != "" || strings.HasPrefix(s, ".") ||
		strings.HasSuffix(s, ".") {
		return errors.New("want a domain of e-mail addresses such as example.com")
	}
	return nil
}

// unknown reports whether a value is only known once the configuration is loaded.
func (o *RemoteOptions) unknown() bool {
	all := []string{string(o.Level), o.Couple, o.IdentifyBy}
	for _, m := range o.Map {
		all = append(all, m.From, m.To)
	}
	for _, c := range o.Constants {
		all = append(all, c.Detail, c.Value)
	}
	return slices.ContainsFunc(all, caddyfileutil.HasPlaceholder)
}

// oneLine writes joined errors on one line.
func oneLine(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
}
