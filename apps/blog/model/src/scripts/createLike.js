// Creates a like and increments the counter of its post in one transaction.
// Runs in the logical partition of the post. Arguments: the post's id and the like.
// The number of the error is 404 if the post is missing or deleted, and 409 if the like exists.
function createLike(postId, like) {
  var collection = getContext().getCollection();

  function checkAccepted(accepted) {
    if (!accepted) {
      throw new Error(503, 'createLike exceeded its time limit; nothing was changed');
    }
  }

  var postLink = collection.getAltLink() + '/docs/' + postId;
  checkAccepted(collection.readDocument(postLink, function (err, post) {
    if (err) throw err;
    if (post.type === 'deletedPost') throw new Error(404, 'the post was deleted');
    post.likeCount++;
    var options = { etag: post._etag };
    checkAccepted(collection.replaceDocument(post._self, post, options, function (err) {
      if (err) throw err;
      like.postId = postId;
      checkAccepted(collection.createDocument(collection.getSelfLink(), like, function (err) {
        if (err) throw err;
        getContext().getResponse().setBody({ likeCount: post.likeCount });
      }));
    }));
  }));
}
