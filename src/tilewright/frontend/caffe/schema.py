"""The messages of Caffe (schema.txt); both encodings of a network pass over fields that they do not know."""

from tilewright.frontend.messages import Schema

NET = Schema.of("tilewright.frontend.caffe")

#: Of a file of weights only names and blobs: forks number the parameters of their layers differently.
WEIGHTS = Schema.of("tilewright.frontend.caffe", """
NetParameter layers=2:V1LayerParameter* layer=100:LayerParameter*
LayerParameter name=1:string type=2:string blobs=7:BlobProto*
V1LayerParameter layer=1:V0LayerParameter name=4:string blobs=6:BlobProto*
V0LayerParameter name=1:string blobs=50:BlobProto*
""")  # fmt: skip
