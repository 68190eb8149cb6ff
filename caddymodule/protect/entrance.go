package protect

import (
	"net/http"

	"github.com/gatehouse-id/gatehouse/authz/dpop"
	"github.com/gatehouse-id/gatehouse/internal/botauth"
	"github.com/gatehouse-id/gatehouse/internal/calllog"
	"github.com/gatehouse-id/gatehouse/internal/decisionlog"
	refusals "github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/limit"
	"github.com/gatehouse-id/gatehouse/internal/usage"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// Entrance is the authorization server of the running instance. It stays open until Leave is called.
type Entrance struct {
	Authority  authority
	SavedForms formStore // nil: no form is kept
	Access     Access    // nil: no one can ask for access
	Policies   library   // nil: there are no policies but those of the Caddyfile
	Pages      *web.Renderer
	Counter    counter                              // nil: nothing is counted
	Refusals   *refusals.Recorder                   // nil: refusals are logged alone
	Decisions  *decisionlog.Recorder                // nil: what shadow rules would decide is counted alone
	Limits     *limit.Counters                      // nil: nothing is limited
	Calls      *calllog.Log                         // nil: calls are not recorded
	Usage      *usage.Counter                       // nil: the usage of clients is not counted
	Admit      func(r *http.Request, size int) bool // whether a stranger may begin one more sign-in, of size bytes; nil: always
	// DeviceBound says that new sessions are bound to devices unless a site says otherwise.
	DeviceBound bool
	Robots      *botauth.Verifier // nil: no one is a robot
	// HasRules reports whether a site has these rules, see App.RegisterRules. nil: none has, so open requests end.
	HasRules func(text string) bool
	Leave    func()

	Assertions asserter // nil: none are signed
	// Transactions begins transactions. nil: none begin.
	Transactions transactor
	Proofs       *dpop.Proofs // nil: a token that is bound to a key opens nothing
	// Thumbprint names the certificate of the sender of a request. nil: no one has one.
	Thumbprint func(*http.Request) string
	Exchange   exchanger // nil: no token can be had for upstreams
}
