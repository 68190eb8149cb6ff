package archtest

func init() {
	mayImportRows(`
authz: internal storage
authz/assertion: authz/keys internal
authz/transaction: authz/keys internal
authz/certificate:
authz/client: authz/certificate authz/oauth internal
authz/consent: authz/client authz/rar internal storage
authz/rar: internal
authz/device: authz/client authz/consent authz/grant authz/oauth authz/clientstore authz/jsonresponse authz/token internal storage
authz/dpop: authz/oauth internal storage
authz/jwtresponse: authz/client authz/keys internal
authz/exchange: authz/client authz/consent authz/grant authz/keys authz/oauth authz/clientstore authz/jsonresponse authz/token authz/transaction internal storage
authz/grant: authz/client authz/consent authz/jwtresponse authz/oauth authz/apppassword authz/clientstore authz/jsonresponse authz/token authz/logout internal storage
authz/idjag: authz/client authz/grant authz/oauth authz/clientstore authz/jsonresponse authz/token authz/workload internal storage
authz/jar: authz/client authz/oauth internal
authz/keys: internal storage
authz/keyset:
authz/cimd: authz/client authz/oauth internal
authz/oauth: internal storage
authz/par: authz/client authz/oauth authz/clientstore authz/jsonresponse internal storage
authz/savedforms: internal storage
authz/apppassword: authz/client authz/oauth authz/clientstore authz/token internal storage
authz/dcr: authz/client authz/cimd authz/oauth authz/clientstore authz/jsonresponse authz/token internal storage
authz/clientstore: authz/certificate authz/client authz/rar authz/keyset authz/cimd authz/oauth authz/workload internal storage
authz/jsonresponse:
authz/ssf: authz/client authz/keys authz/oauth authz/clientstore authz/jsonresponse authz/token internal storage
authz/sitesession: authz/oauth authz/token internal storage
authz/token: authz/client authz/rar authz/jwtresponse authz/keys authz/oauth authz/clientstore authz/ida internal storage
authz/workload: authz/client authz/keyset authz/oauth internal storage
authz/ida: internal
authz/logout: authz/client authz/keys authz/oauth authz/clientstore authz/token internal storage
`)
}
