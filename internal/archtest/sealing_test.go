package archtest

import (
	"go/types"
	"slices"
	"strings"
	"testing"
)

// sealing are the functions that seal something with the encryption key, or derive a key from it, and why nothing is
// lost when an older key is removed. (docs/operation.md#rotate-keys)
var sealing = allowance{
	"admin.checkPart":                       "people of imports: a day",
	"admin.keepSealed":                      "files of imports: a day",
	"admin/alert.Reseal":                    "reseals",
	"admin/alert.aim":                       "webhooks of alerts: resealed by admin/alert",
	"authz.New":                             "challenges to the devices of browsers: minutes",
	"authz/clientstore.newSecretChecks":     "secrets of clients: hashed anew when they are used, and the verdict names the others",
	"authz/dpop.New":                        "nonces: minutes",
	"authz/keys.Reseal":                     "reseals",
	"authz/keys.generate":                   "signing keys: resealed by authz/keys",
	"authz/savedforms.Keep":                 "forms that wait for a sign-in: ten minutes",
	"authz/ssf.Reseal":                      "reseals",
	"authz/ssf.applyDelivery":               "headers of streams: resealed by authz/ssf",
	"authz/token.loadPairwise":              "the key of pairwise subjects: each start seals it with the first key",
	"caddymodule.openPages":                 "tokens of forms: as long as a page is open",
	"identity.newServices":                  "challenges to the devices of browsers: minutes",
	"identity/challenge.CheckCode":          "codes that were sent: docs/operation.md#rotate-keys names them",
	"identity/challenge.CheckDeliveredCode": "codes in letters: docs/operation.md#rotate-keys names them",
	"identity/challenge.SendCode":           "codes that were sent: docs/operation.md#rotate-keys names them",
	"identity/challenge.putDeliveredCode":   "codes in letters: docs/operation.md#rotate-keys names them",
	"identity/federation.EndAtProvider":     "a sign-out at a provider: an hour",
	"identity/federation.PrepareSession":    "for the sign-out at a provider: as long as the session, which the verdict names",
	"identity/federation.arrive":            "the state of a sign-in at a provider: an hour",
	"identity/federation.begin":             "the state of a sign-in at a provider: an hour",
	"identity/federation.endThere":          "a sign-out at a provider: an hour",
	"identity/federation.finish":            "the state of a sign-in at a provider: an hour",
	"identity/federation.keepRefreshed":     "for the sign-out at a provider: as long as the session, which the verdict names",
	"identity/federation.lastMAC":           "the provider that a browser is offered first: nothing is lost",
	"identity/keystore.makeOwn":             "key pairs: resealed by identity/keystore",
	"identity/keystore.prepareOne":          "key pairs: resealed by identity/keystore",
	"identity/keystore.sealed":              "reseals",
	"identity/keystore.successor":           "key pairs: resealed by identity/keystore",
	"identity/mfa.Reseal":                   "reseals",
	"identity/mfa.addTOTP":                  "authenticator apps: resealed by identity/mfa",
	"identity/mfa.checkTOTP":                "reseals what a person uses",
	"identity/mfa.newPIN":                   "PINs: resealed by identity/mfa",
	"identity/mfa.pendingPhone":             "a phone that is being set up: minutes",
	"identity/mfa.pendingTOTP":              "an app that is being set up: minutes",
	"identity/notify.add":                   "messages that wait: docs/operation.md#rotate-keys names them",
	"identity/person.New":                   "comparisons with the passwords of the Caddyfile, which are made again; decoys of unknown people",
	"identity/qrlogin.make":                 "a code that is shown: two minutes",
	"identity/settings.record":              "secrets of settings: resealed by identity/settings",
	"identity/settings.resealSecrets":       "reseals",
	"identity/signup.keepInput":             "the state of a sign-in at a provider: an hour",
	"identity/signup.sealSignUp":            "a form that waits for its address: an hour",
}

// TestSealedRecordsAreResealed: what an encryption key has sealed is sealed again with the first one, or is needed for
// a short time. Otherwise it is lost with the older key, although `keys reseal` has said that this can be removed.
func TestSealedRecordsAreResealed(t *testing.T) {
	t.Parallel()
	allowed := sealing.use(t)
	g := callGraph(t)
	var look func(fn *types.Func)
	look = func(fn *types.Func) {
		for _, caller := range g.callers[fn] {
			n := g.decls[caller]
			switch {
			case harness(n.file):
			case strings.EqualFold(caller.Name(), "seal"): // its callers decide what is sealed
				look(caller)
			case !allowed.allows(n.p.dir + "." + caller.Name()):
				t.Errorf("%s: %s.%s seals with the encryption key or derives a key from it: reseal that in caddymodule/reseal.go, or say "+
					"in the list of this test why it needs no older key for long", n.file.at(n.decl), n.p.dir, caller.Name())
			}
		}
	}
	found := 0
	for fn, n := range g.decls {
		if n.p.dir == "internal/secret" && slices.Contains([]string{"Seal", "Derive", "DeriveAll"}, fn.Name()) {
			found++
			look(fn)
		}
	}
	if found != 3 {
		t.Errorf("%d of Seal, Derive and DeriveAll found, want 3", found)
	}
}
