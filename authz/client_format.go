package authz

const formatOpaque = "opaque"

const formatJWT = "jwt"
