<?php
// The people who can sign in, with their passwords.
$config = [
    'admin' => ['core:AdminPassword'],
    'people' => [
        'exampleauth:UserPass',
        'alice:alicepw' => [
            'uid' => ['alice'],
            'mail' => ['alice@example.org'],
            'displayName' => ['Alice Example'],
            'eduPersonAffiliation' => ['member', 'staff'],
        ],
        'bob:bobpw' => [
            'uid' => ['bob'],
            'mail' => ['bob@example.org'],
            'displayName' => ['Bob "B" <Example> & Söhne'],
            'eduPersonAffiliation' => ['member'],
        ],
        // Carol's password is right, and yet she is refused: see metadata/saml20-idp-hosted.php.
        'carol:carolpw' => ['uid' => ['carol'], 'mail' => ['carol@example.org'], 'displayName' => ['Carol Example']],
    ],
];
