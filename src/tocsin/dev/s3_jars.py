"""The jars of S3Proxy: what org.gaul:s3proxy of this version needs to keep objects in files, all
pinned.

For another version, resolve it once with Maven or Ivy, and leave out what it starts, stores and
lists without. Those of Azure, OpenStack and S3 are here because it looks at all its backends before
it takes one. Besides, the logger that lets it say why it does not start.
"""

from __future__ import annotations

from tocsin.spark.jars import JarSet

S3PROXY = JarSet(
    "s3",
    (
        "aopalliance:aopalliance:1.0",
        "args4j:args4j:2.37",
        "com.fasterxml.jackson.core:jackson-annotations:2.20",
        "com.fasterxml.jackson.core:jackson-core:2.20.1",
        "com.fasterxml.jackson.core:jackson-databind:2.20.1",
        "com.fasterxml.jackson.dataformat:jackson-dataformat-xml:2.20.1",
        "com.google.code.gson:gson:2.11.0",
        "com.google.guava:failureaccess:1.0.3",
        "com.google.guava:guava:33.5.0-jre",
        "com.google.inject.extensions:guice-assistedinject:7.0.0",
        "com.google.inject:guice:7.0.0",
        "jakarta.annotation:jakarta.annotation-api:2.0.0",
        "jakarta.inject:jakarta.inject-api:2.0.1",
        "jakarta.xml.bind:jakarta.xml.bind-api:4.0.2",
        "org.apache.jclouds.api:oauth:2.7.0",
        "org.apache.jclouds.api:openstack-swift:2.7.0",
        "org.apache.jclouds.api:s3:2.7.0",
        "org.apache.jclouds.driver:jclouds-slf4j:2.7.0",
        "org.apache.jclouds.provider:azureblob:2.7.0",
        "org.apache.jclouds:jclouds-blobstore:2.7.0",
        "org.apache.jclouds:jclouds-core:2.7.0",
        "org.codehaus.woodstox:stax2-api:4.2.2",
        "org.eclipse.jetty.toolchain:jetty-jakarta-servlet-api:5.0.2",
        "org.gaul:s3proxy:2.9.0",
        "org.slf4j:slf4j-api:2.0.17",
        "org.slf4j:slf4j-simple:2.0.17",
    ),
)
