// Package metrics declares the counters and histograms that Gatehouse adds to Caddy's metrics.
package metrics

import (
	"cmp"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/dbsc"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/newest"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/stats"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
	"github.com/gatehouse-id/gatehouse/storage/pgstore"
)

// Metrics belong to the open store, so counters survive reloads; each configuration registers them in its own registry.
type Metrics struct {
	requests       *prometheus.CounterVec // by endpoint and outcome
	resolved       map[string]*resolved   // those of requests, by endpoint
	tokens         prometheus.Counter
	introspections *prometheus.CounterVec // by caller
	asked          prometheus.Counter     // introspections at the endpoint
	panics         prometheus.Counter
	webhooks       *prometheus.CounterVec // by outcome
	mails          *prometheus.CounterVec // by outcome
	texts          *prometheus.CounterVec // by outcome
	pushes         *prometheus.CounterVec // by outcome
	devices        *prometheus.CounterVec // by outcome
	refusals       *prometheus.CounterVec // by where and reason
	signIns        *prometheus.CounterVec // by result, reason, method and provider
	stepUps        *prometheus.CounterVec // by result, reason and method
	tokenErrors    *prometheus.CounterVec // by error
	shadows        *prometheus.CounterVec // requests at sites with shadow rules
	sites          *prometheus.CounterVec // requests at protect, by site, result and reason

	// Sites keeps what sites decide in storage too. nil: it is not kept.
	Sites *stats.Buffer
	// Unkept counts refusals whose references are not kept.
	Unkept func() int64
	// Calls counts the recorded calls: written, lost and waiting.
	Calls func() (written, lost, waiting int64)
	// Limits returns the used share of the keys that limits can remember, by their kind.
	Limits func() map[string]float64

	events func() audit.Stats             // of the keeper
	growth func() map[string]audit.Growth // of the keeper
	stats  func() badgerstore.Stats       // nil: another engine
	shared func() pgstore.Stats           // nil: another engine
	hasher atomic.Pointer[secret.Hasher]

	certificates atomic.Pointer[Expiries]
	parties      atomic.Pointer[Parties]
	figures      newest.Of[*Figures]
}

// statsKeeper is a store that counts what it does.
type statsKeeper interface{ Stats() badgerstore.Stats }

// databaseStatsKeeper is a store in a database that counts what it does.
type databaseStatsKeeper interface{ Stats() pgstore.Stats }

// New returns the metrics of a store. Set Unkept, Calls and Limits before they are registered.
func New(s storage.Store, k *audit.Keeper) *Metrics {
	m := &Metrics{
		events: k.Stats, growth: k.Growth,
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gatehouse_requests_total", Help: "Requests answered, by endpoint and outcome (ok, redirect, refused, failed, none).",
		}, []string{"endpoint", "outcome"}),
		tokens: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gatehouse_token_responses_total", Help: "Token requests that were answered with tokens.",
		}),
		introspections: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gatehouse_introspections_total", Help: "Tokens looked up, by caller (endpoint, protect).",
		}, []string{"by"}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gatehouse_panics_total", Help: "Requests that ended in a panic. Anything above zero is a defect.",
		}),
	}
	m.webhooks = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_webhook_posts_total", Help: "Events posted to webhooks, by outcome (taken, failed); what failed is tried again.",
	}, []string{"outcome"})
	m.mails = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_mails_total", Help: "E-mails handed to the mail server, by outcome (taken, failed); what failed is tried again.",
	}, []string{"outcome"})
	m.texts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_text_messages_total",
		Help: "Text messages handed over, by outcome (taken, failed); what failed is tried again until it is too late.",
	}, []string{"outcome"})
	m.pushes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_pushes_total",
		Help: "Prompts on devices handed over, by outcome (taken, failed); what failed is tried again until it is too late.",
	}, []string{"outcome"})
	m.devices = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_device_bound_sessions_total",
		Help: "Steps of sessions that are bound to a device, by outcome: bound, refreshed, refused (a proof was wrong).",
	}, []string{"outcome"})
	m.refusals = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_refusals_total", Help: "Refusals, by where (site, sign_in, step_up, oauth, api, page) and reason.",
	}, []string{"where", "reason"})
	m.signIns = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_sign_ins_total", Help: "Sign-ins, by result (ok, refused), reason of a refusal, method and identity provider.",
	}, []string{"result", "reason", "method", "idp"})
	m.shadows = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_policy_shadow_total",
		Help: "Requests at sites with shadow rules, by site, the shadow rule that would decide, the verdict, and the verdict of the shadow rules.",
	}, []string{"site", "rule", "live", "shadow"})
	m.sites = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_protect_requests_total",
		Help: "Requests that protect has judged, by site, result (allowed, sign_in, refused) and reason.",
	}, []string{"site", "result", "reason"})
	m.tokenErrors = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_token_errors_total", Help: "Token requests that were answered with an error, by its code.",
	}, []string{"error"})
	m.stepUps = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_step_ups_total",
		Help: "Sign-ins that were confirmed by a further method, by result (ok, refused), reason of a refusal and method.",
	}, []string{"result", "reason", "method"})
	for _, outcome := range []string{"taken", "failed"} {
		m.webhooks.WithLabelValues(outcome)
		m.mails.WithLabelValues(outcome)
		m.texts.WithLabelValues(outcome)
		m.pushes.WithLabelValues(outcome)
	}
	for _, reason := range []denial.Reason{denial.CodeReplayed, denial.RefreshReplayed} { // an alert counts from none to the first
		m.refusals.WithLabelValues(denial.OAuth, string(reason))
	}
	if k, ok := s.(statsKeeper); ok {
		m.stats = k.Stats
	}
	if k, ok := s.(databaseStatsKeeper); ok {
		m.shared = k.Stats
	}
	m.asked = m.introspections.WithLabelValues("endpoint")
	m.introspections.WithLabelValues("protect")
	m.resolved = map[string]*resolved{}
	for _, name := range slices.Concat(slices.Collect(maps.Values(endpoints)),
		[]string{"assets", "scim", "provider", "service_provider", "configuration", "other"}) {
		m.resolved[name] = new(resolved)
	}
	return m
}

// Watch sets the hasher of the newest configuration, whose counters are shown.
func (m *Metrics) Watch(h *secret.Hasher) { m.hasher.Store(h) }

// Register adds the metrics to the registry of a configuration.
func (m *Metrics) Register(reg *prometheus.Registry) error {
	if reg == nil {
		return nil
	}
	if err := reg.Register(m); err != nil && !errors.As(err, new(prometheus.AlreadyRegisteredError)) {
		return err
	}
	return nil
}

var (
	descUpdates  = prometheus.NewDesc("gatehouse_storage_updates_total", "Transactions answered, including those that failed.", nil, nil)
	descCommits  = prometheus.NewDesc("gatehouse_storage_commits_total", "Synced batches of transactions.", nil, nil)
	descRecords  = prometheus.NewDesc("gatehouse_storage_records_total", "Records written or deleted.", nil, nil)
	descSync     = prometheus.NewDesc("gatehouse_storage_sync_seconds_total", "Time that batches took, sync included.", nil, nil)
	descLastSync = prometheus.NewDesc("gatehouse_storage_last_sync_seconds", "Time that the last batch took, sync included.", nil, nil)
	descFree     = prometheus.NewDesc("gatehouse_storage_free_bytes", "Free space at the last check.", nil, nil)
	descReopened = prometheus.NewDesc("gatehouse_storage_reopenings_total",
		"Times that the store was opened again after a failed commit. Anything above zero is a fault of the disk.", nil, nil)
	descRetries = prometheus.NewDesc("gatehouse_storage_retries_total",
		"Transactions that ran again after a conflict or a lost connection, by operation (update, view, sweep). PostgreSQL only.",
		[]string{"operation"}, nil)
	descTrips = prometheus.NewDesc("gatehouse_storage_round_trips_total", "Round trips to the database. PostgreSQL only.", nil, nil)
	descHears = prometheus.NewDesc("gatehouse_storage_notified",
		"1 while the database notifies of the writes of other nodes, otherwise 0. PostgreSQL only.", nil, nil)
	descHashed = prometheus.NewDesc("gatehouse_password_hashes_total", "Slow password hashes computed.", nil, nil)
	descQueue  = prometheus.NewDesc("gatehouse_password_hash_queue", "Password hashes that wait for their turn.", nil, nil)

	descUnkept = prometheus.NewDesc("gatehouse_refusals_unkept_total",
		"Refusals whose references are not kept: more than 100 in a second, or storage failed.", nil, nil)
	descCalls = prometheus.NewDesc("gatehouse_audited_calls_total",
		"Calls that a site with audit has let pass: written, or lost because storage was too slow or failed.", []string{"result"}, nil)
	descLimits = prometheus.NewDesc("gatehouse_limit_fill_ratio",
		"Used share of the addresses, callers and quotas that limits can remember.", []string{"kind"}, nil)
	descCallsWaiting = prometheus.NewDesc("gatehouse_audited_calls_waiting", "Calls in memory that are not written yet.", nil, nil)
	descSealed       = prometheus.NewDesc("gatehouse_events_sealed_total", "Events sealed into the chain.", nil, nil)
	descCollected    = prometheus.NewDesc("gatehouse_events_collected_total", "Events removed after their retention.", nil, nil)
	descGrowth       = prometheus.NewDesc("gatehouse_events_by_type_total", "Events sealed, by type.", []string{"type"}, nil)
	descBytes        = prometheus.NewDesc("gatehouse_event_bytes_by_type_total",
		"Bytes of sealed events as they are stored, without indexes, by type.", []string{"type"}, nil)
	descBehind = prometheus.NewDesc("gatehouse_events_unsealed",
		"Events that were not sealed yet at the last check, twice a second.", nil, nil)
)

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	m.requests.Describe(ch)
	m.tokens.Describe(ch)
	m.introspections.Describe(ch)
	m.panics.Describe(ch)
	m.webhooks.Describe(ch)
	m.mails.Describe(ch)
	m.texts.Describe(ch)
	m.pushes.Describe(ch)
	m.devices.Describe(ch)
	m.refusals.Describe(ch)
	m.signIns.Describe(ch)
	m.stepUps.Describe(ch)
	m.tokenErrors.Describe(ch)
	m.sites.Describe(ch)
	m.shadows.Describe(ch)
	for _, d := range []*prometheus.Desc{
		descUpdates, descCommits, descRecords, descSync, descLastSync, descFree, descReopened, descRetries,
		descTrips, descHears, descHashed, descQueue, descCertificate, descParty, descBuild, descWaiting, descSessions, descUnkept, descSealed,
		descCalls, descCallsWaiting, descLimits,
		descCollected, descGrowth, descBytes, descBehind,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.collectCertificates(ch)
	m.collectParties(ch)
	m.collectFigures(ch)
	m.requests.Collect(ch)
	m.tokens.Collect(ch)
	m.introspections.Collect(ch)
	m.panics.Collect(ch)
	m.webhooks.Collect(ch)
	m.mails.Collect(ch)
	m.texts.Collect(ch)
	m.pushes.Collect(ch)
	m.devices.Collect(ch)
	m.refusals.Collect(ch)
	m.signIns.Collect(ch)
	m.stepUps.Collect(ch)
	m.tokenErrors.Collect(ch)
	m.sites.Collect(ch)
	m.shadows.Collect(ch)
	ch <- prometheus.MustNewConstMetric(descUnkept, prometheus.CounterValue, float64(m.Unkept()))
	written, lost, waiting := m.Calls()
	ch <- prometheus.MustNewConstMetric(descCalls, prometheus.CounterValue, float64(written), "written")
	ch <- prometheus.MustNewConstMetric(descCalls, prometheus.CounterValue, float64(lost), "lost")
	ch <- prometheus.MustNewConstMetric(descCallsWaiting, prometheus.GaugeValue, float64(waiting))
	for kind, share := range m.Limits() {
		ch <- prometheus.MustNewConstMetric(descLimits, prometheus.GaugeValue, share, kind)
	}
	st := m.events()
	ch <- prometheus.MustNewConstMetric(descSealed, prometheus.CounterValue, float64(st.Sealed))
	ch <- prometheus.MustNewConstMetric(descCollected, prometheus.CounterValue, float64(st.Collected))
	ch <- prometheus.MustNewConstMetric(descBehind, prometheus.GaugeValue, float64(st.Behind))
	for kind, g := range m.growth() {
		ch <- prometheus.MustNewConstMetric(descGrowth, prometheus.CounterValue, float64(g.Events), kind)
		ch <- prometheus.MustNewConstMetric(descBytes, prometheus.CounterValue, float64(g.Bytes), kind)
	}
	if m.stats != nil {
		st := m.stats()
		ch <- prometheus.MustNewConstMetric(descUpdates, prometheus.CounterValue, float64(st.Updates))
		ch <- prometheus.MustNewConstMetric(descCommits, prometheus.CounterValue, float64(st.Commits))
		ch <- prometheus.MustNewConstMetric(descRecords, prometheus.CounterValue, float64(st.Records))
		ch <- prometheus.MustNewConstMetric(descSync, prometheus.CounterValue, st.TotalCommits.Seconds())
		ch <- prometheus.MustNewConstMetric(descLastSync, prometheus.GaugeValue, st.LastCommit.Seconds())
		ch <- prometheus.MustNewConstMetric(descFree, prometheus.GaugeValue, float64(st.Free))
		ch <- prometheus.MustNewConstMetric(descReopened, prometheus.CounterValue, float64(st.Reopenings))
	}
	m.collectShared(ch)
	if h := m.hasher.Load(); h != nil {
		ch <- prometheus.MustNewConstMetric(descHashed, prometheus.CounterValue, float64(h.Computed()))
		ch <- prometheus.MustNewConstMetric(descQueue, prometheus.GaugeValue, float64(h.Waiting()))
	}
}

// collectShared adds the counters of a storage in a database.
func (m *Metrics) collectShared(ch chan<- prometheus.Metric) {
	if m.shared == nil {
		return
	}
	st := m.shared()
	ch <- prometheus.MustNewConstMetric(descUpdates, prometheus.CounterValue, float64(st.Updates))
	ch <- prometheus.MustNewConstMetric(descCommits, prometheus.CounterValue, float64(st.Commits))
	ch <- prometheus.MustNewConstMetric(descRecords, prometheus.CounterValue, float64(st.Records))
	ch <- prometheus.MustNewConstMetric(descSync, prometheus.CounterValue, st.TotalCommits.Seconds())
	ch <- prometheus.MustNewConstMetric(descLastSync, prometheus.GaugeValue, st.LastCommit.Seconds())
	ch <- prometheus.MustNewConstMetric(descTrips, prometheus.CounterValue, float64(st.RoundTrips))
	for operation, n := range st.Retries {
		ch <- prometheus.MustNewConstMetric(descRetries, prometheus.CounterValue, float64(n), operation)
	}
	hears := 0.0
	if st.Hears {
		hears = 1
	}
	ch <- prometheus.MustNewConstMetric(descHears, prometheus.GaugeValue, hears)
}

// endpoints are the labels of paths. All other paths share one label, so a client cannot create labels.
var endpoints = map[string]string{
	"/oauth/forward-auth": "forward_auth",
	"/oauth/authorize":    "authorize", "/oauth/v1/authorize": "authorize",
	"/oauth/token": "token", "/oauth/v1/token": "token",
	"/oauth/register": "register", "/oauth/par": "par", "/oauth/v1/par": "par",
	"/oauth/device_authorization": "device_authorization", "/oauth/v1/device_authorization": "device_authorization",
	"/oauth/device_authorization/approve": "device_authorization", "/oauth/v1/device_authorization/approve": "device_authorization",
	"/device": "device", "/device/allow": "device",
	"/oauth/revoke": "revoke", "/oauth/v1/revoke": "revoke",
	"/oauth/api/v2/token/introspect": "introspect",
	"/oauth/userinfo":                "userinfo",
	"/oauth/jwks":                    "jwks",
	"/oauth/logout":                  "logout",
	"/oauth/consent":                 "consent",
	"/oauth/site":                    "site",
	"/api/events":                    "events",
	"/api/credentials/validate":      "credentials",
	"/api/credentials/token":         "action_token", "/api/credentials/tokens/validate": "action_token", "/sign-in/token": "action_token",
	"/.well-known/openid-configuration": "discovery", "/.well-known/oauth-authorization-server": "discovery",
	"/.well-known/authzen-configuration": "discovery",
	"/access/v1/evaluation":              "access", "/access/v1/evaluations": "access",
	"/ssf/stream": "ssf", "/ssf/status": "ssf", "/ssf/subjects/add": "ssf", "/ssf/subjects/remove": "ssf",
	"/ssf/verify": "ssf", "/ssf/poll": "ssf_poll",
	"/favicon.ico": "assets", "/sign-in": "sign_in", "/sign-out": "sign_out", "/account": "account", "/step-up": "step_up",
}

// Posted counts an attempt to post to a webhook.
func (m *Metrics) Posted(err error) { m.webhooks.WithLabelValues(taken(err)).Inc() }

// Mailed counts an attempt to deliver an e-mail.
func (m *Metrics) Mailed(err error) { m.mails.WithLabelValues(taken(err)).Inc() }

// Texted counts an attempt to deliver a text message.
func (m *Metrics) Texted(err error) { m.texts.WithLabelValues(taken(err)).Inc() }

// Pushed counts an attempt to deliver a prompt.
func (m *Metrics) Pushed(err error) { m.pushes.WithLabelValues(taken(err)).Inc() }

// taken is the outcome of an attempt.
func taken(err error) string {
	if err != nil {
		return "failed"
	}
	return "taken"
}

// CountRequest counts an answer. status 0: there was none.
func (m *Metrics) CountRequest(path string, status int) {
	endpoint, ok := endpoints[path]
	switch {
	case ok:
	case strings.HasPrefix(path, "/account/"):
		endpoint = "account"
	case strings.HasPrefix(path, "/assets/"):
		endpoint = "assets"
	case strings.HasPrefix(path, "/scim/v2/"):
		endpoint = "scim"
	case strings.HasPrefix(path, "/saml/"), strings.HasPrefix(path, "/oidc/"), strings.HasPrefix(path, "/kerberos/"),
		strings.HasPrefix(path, "/sign-in/provider"):
		endpoint = "provider"
	case strings.HasPrefix(path, "/sso/"):
		endpoint = "service_provider"
	case strings.HasPrefix(path, "/api/config"), strings.HasPrefix(path, "/api/v2/"), path == "/api/v1/explain",
		strings.HasPrefix(path, "/v2/config/"):
		endpoint = "configuration"
	default:
		endpoint = "other"
	}
	outcome := answered
	switch {
	case status == 0:
		outcome = unanswered
	case status >= http.StatusInternalServerError:
		outcome = failed
	case status >= http.StatusBadRequest:
		outcome = refused
	case status >= http.StatusMultipleChoices:
		outcome = redirected
	}
	m.resolved[endpoint].counter(m.requests, endpoint, outcome).Inc()
	if outcome != answered {
		return
	}
	switch endpoint {
	case "token":
		m.tokens.Inc()
	case "introspect":
		m.asked.Inc()
	}
}

// outcome is the outcome of a request.
type outcome int

const (
	answered outcome = iota
	redirected
	refused
	failed
	unanswered
	outcomes = iota
)

var outcomeLabels = [outcomes]string{answered: "ok", redirected: "redirect", refused: "refused", failed: "failed", unanswered: "none"}

// resolved are the counters of an endpoint that have been looked up.
type resolved [outcomes]atomic.Pointer[prometheus.Counter]

// counter looks a counter up once. It exists from its first use on.
func (r *resolved) counter(of *prometheus.CounterVec, endpoint string, o outcome) prometheus.Counter {
	if c := r[o].Load(); c != nil {
		return *c
	}
	c := of.WithLabelValues(endpoint, outcomeLabels[o])
	r[o].Store(&c)
	return c
}

// CountIntrospection counts a token lookup, by caller.
func (m *Metrics) CountIntrospection(by string) { m.introspections.WithLabelValues(by).Inc() }

// CountRefusal counts a refusal. Its reason is one of a closed list.
func (m *Metrics) CountRefusal(f *denial.Refusal) {
	m.refusals.WithLabelValues(f.Where, string(f.Reason)).Inc()
	switch f.Where {
	case denial.SignIn:
		m.signIns.WithLabelValues("refused", string(f.Reason), f.By, cmp.Or(f.Provider, session.LocalProvider)).Inc()
	case denial.StepUp:
		m.stepUps.WithLabelValues("refused", string(f.Reason), f.By).Inc()
	}
}

// CountCode counts the error codes of the token endpoint. They are constants of authz.
func (m *Metrics) CountCode(f *denial.Refusal) {
	if f.Where == denial.OAuth && endpoints[f.Path] == "token" {
		m.tokenErrors.WithLabelValues(f.Code).Inc()
	}
}

// CountSite counts a request that a site has not let pass. The site is named in the configuration.
func (m *Metrics) CountSite(site, result, reason string) {
	m.sites.WithLabelValues(site, result, reason).Inc()
	switch {
	case result == "refused":
		m.Sites.Site(site).Denied()
	case reason == string(denial.LevelTooLow), reason == string(denial.SignInTooOld):
		m.Sites.Site(site).Raised()
	}
}

// Judged counts a request that a site has judged, by the time that it took.
func (m *Metrics) Judged(took time.Duration) { m.Sites.Judged(took) }

// CountShadow counts a request at a site with shadow rules. Site and rule are named in the configuration.
func (m *Metrics) CountShadow(site, rule, live, shadow string) {
	m.shadows.WithLabelValues(site, rule, live, shadow).Inc()
	m.Sites.Site(site).Tried(live == passed, shadow == passed)
}

const passed = "allow" // the verdict of a request that passes

// Rule returns the counter of the decisions of a rule.
func (m *Metrics) Rule(name string) *stats.RuleCount { return m.Sites.Rule(name) }

// SitePasses returns the counter of the requests that a site lets pass.
func (m *Metrics) SitePasses(site string) prometheus.Counter {
	return passes{m.sites.WithLabelValues(site, "allowed", ""), m.Sites.Site(site)}
}

// passes counts for the metrics and for the statistics.
type passes struct {
	prometheus.Counter
	site *stats.SiteCounts
}

// Inc implements prometheus.Counter.
func (p passes) Inc() {
	p.Counter.Inc()
	p.site.Admitted()
}

// CountEntry counts a sign-in or step-up that succeeded.
func (m *Metrics) CountEntry(e denial.Entry) {
	if e.StepUp {
		m.stepUps.WithLabelValues("ok", "", e.By).Inc()
		return
	}
	m.signIns.WithLabelValues("ok", "", e.By, e.Provider).Inc()
}

// CountDevice counts a step of binding a session to a device.
func (m *Metrics) CountDevice(o dbsc.Outcome) { m.devices.WithLabelValues(string(o)).Inc() }

// CountPanic counts a request that ended in a panic.
func (m *Metrics) CountPanic() { m.panics.Inc() }

// CountPanics counts several.
func (m *Metrics) CountPanics(n int64) { m.panics.Add(float64(n)) }

// Endpoint is the label of a path, or "".
func Endpoint(path string) string { return endpoints[path] }

// Free returns the function that returns the free space of the storage in bytes, or nil if the engine does not know it.
func (m *Metrics) Free() func() uint64 {
	if m.stats == nil {
		return nil
	}
	return func() uint64 { return m.stats().Free }
}
