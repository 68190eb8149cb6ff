package rules

func init() {
	mayImportRows(`
identity: idp internal storage
identity/access: internal storage
identity/access/notice: identity/access identity/config identity/notify identity/person internal storage
identity/account: identity/actiontoken identity/config identity/enrol identity/federation identity/front identity/notify identity/passkey identity/person identity/proof identity/session identity/stepup identity/trusted idp internal storage
identity/actiontoken: identity/config identity/federation identity/front identity/notify identity/person identity/proof identity/session identity/stepup idp internal storage
identity/api: identity idp/idptest internal storage
identity/assurance: identity/config identity/notify identity/person internal storage
identity/breach: internal
identity/config: identity/config/effect identity/keypair internal storage
identity/config/effect:
identity/config/kind: identity/config/address internal
identity/enrol: identity/config identity/federation identity/front identity/notify identity/person identity/proof identity/session idp internal storage
identity/federation: identity/assurance identity/config identity/front identity/notify identity/person identity/proof identity/session idp internal storage
identity/front: identity/config identity/notify identity/person identity/proof identity/session idp internal storage
identity/handover: identity/config identity/federation identity/notify identity/person identity/proof identity/session idp internal storage
# config for its tests alone: the compiler refuses the circle
identity/keypair: identity/config internal storage
identity/locker: internal storage
# config for its tests alone
identity/lookup: identity/config identity/person internal storage
identity/notify: identity internal storage
identity/passkey: identity/person identity/session internal storage
identity/person: identity/config identity/notify idp internal storage
identity/personfile: identity internal
identity/proof: identity/config identity/notify identity/person identity/session internal storage
identity/qrlogin: identity/config identity/federation identity/front identity/notify identity/person identity/proof identity/session identity/stepup internal storage
identity/scim: identity internal storage
identity/serviceprovider: identity/config identity/front identity/notify identity/person identity/proof identity/session idp internal storage
identity/session: identity/config identity/person internal storage
identity/stepup: identity/config identity/federation identity/front identity/notify identity/passkey identity/person identity/proof identity/session internal storage
identity/trusted: identity/config identity/front identity/notify identity/person identity/proof identity/session internal storage
`)
}
