package archtest

func init() {
	mayImportRows(`
identity: idp internal storage
identity/access: internal storage
identity/access/notice: identity/access identity/settings identity/notify identity/person internal storage
identity/account: identity/actiontoken identity/settings identity/federation identity/webflow identity/notify identity/passkey identity/person identity/challenge identity/session identity/mfa identity/trustedbrowser idp internal storage
identity/actiontoken: identity/settings identity/federation identity/webflow identity/notify identity/person identity/challenge identity/session identity/mfa idp internal storage
identity/api: identity idp/idptest internal storage
identity/assurance: identity/settings identity/notify identity/person internal storage
identity/pwned: internal
identity/settings: identity/settings/effect identity/keystore internal storage
identity/settings/effect: internal/coded
identity/settings/kind: identity/settings/address internal
identity/signup: identity/settings identity/federation identity/webflow identity/notify identity/person identity/challenge identity/session idp internal storage
identity/invitation: identity/settings identity/federation identity/webflow identity/notify identity/person identity/challenge identity/session idp internal storage
identity/activation: identity/settings identity/webflow identity/notify identity/person identity/challenge identity/session internal storage
identity/recovery: identity/settings identity/federation identity/webflow identity/notify identity/person identity/challenge identity/session internal storage
identity/federation: identity/assurance identity/settings identity/webflow identity/notify identity/person identity/challenge identity/session idp internal storage
identity/webflow: identity/settings identity/notify identity/person identity/challenge identity/session idp internal storage
identity/handover: identity/settings identity/federation identity/notify identity/person identity/challenge identity/session idp internal storage
# config for its tests alone: the compiler refuses the circle
identity/keystore: identity/settings internal storage
identity/uservalues: internal storage
# config and idp for its tests alone
identity/personindex: identity/settings identity/person idp internal storage
identity/notify: identity internal storage
identity/passkey: identity/person identity/session internal storage
identity/person: identity/settings identity/notify idp internal storage
identity/importer: identity internal
identity/challenge: identity/settings identity/notify identity/person identity/session internal storage
identity/qrlogin: identity/settings identity/federation identity/webflow identity/notify identity/person identity/challenge identity/session identity/mfa internal storage
identity/scim: identity internal storage
identity/serviceprovider: identity/settings identity/webflow identity/notify identity/person identity/challenge identity/session idp internal storage
identity/session: identity/settings identity/person internal storage
identity/mfa: identity/settings identity/federation identity/webflow identity/notify identity/passkey identity/person identity/challenge identity/session internal storage
identity/trustedbrowser: identity/settings identity/webflow identity/notify identity/person identity/challenge identity/session internal storage
`)
}
