// Adds a like to a post and raises the post's counter, both or neither.
// Runs in the logical partition of the post. Arguments: the post's id, the like.
function createLike(postId, like) {
  var collection = getContext().getCollection();

  function must(accepted) {
    if (!accepted) throw new Error(503, 'createLike ran out of its time budget; nothing was changed');
  }

  must(collection.readDocument(collection.getAltLink() + '/docs/' + postId, function (err, post) {
    if (err) throw err;
    post.likeCount++;
    must(collection.replaceDocument(post._self, post, { etag: post._etag }, function (err) {
      if (err) throw err;
      like.postId = postId;
      must(collection.createDocument(collection.getSelfLink(), like, function (err) {
        if (err) throw err;
        getContext().getResponse().setBody({ likeCount: post.likeCount });
      }));
    }));
  }));
}
