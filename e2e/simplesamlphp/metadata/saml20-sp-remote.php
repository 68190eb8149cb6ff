<?php
// The service providers: every file sp/NAME.xml is the metadata of one, and sp/NAME.json, where it is there, what SimpleSAMLphp does for it in another way.
foreach (glob(getenv('GATEHOUSE_SAML_DIR') . '/sp/*.xml') as $file) {
    foreach (SimpleSAML\Metadata\SAMLParser::parseDescriptorsFile($file) as $id => $parsed) {
        $sp = $parsed->getMetadata20SP();
        if ($sp === null) {
            continue;
        }
        $settings = preg_replace('/xml$/', 'json', $file);
        if (is_file($settings)) {
            $sp = array_replace($sp, json_decode(file_get_contents($settings), true, 16, JSON_THROW_ON_ERROR));
        }
        $metadata[$id] = $sp;
    }
}
